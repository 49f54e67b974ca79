package rest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"lockstep/internal/access"
	"lockstep/internal/clip"
	"lockstep/internal/ledger"
)

// Problem is an error as RFC 9457 describes it.
type Problem struct {
	huma.ErrorModel
	Code string `json:"code" doc:"What programs branch on."`
	// Of a NONCE_CONFLICT.
	CurrentNonce   *uint64 `json:"currentNonce,omitempty" doc:"Of NONCE_CONFLICT."`
	AttemptedNonce *uint64 `json:"attemptedNonce,omitempty" doc:"Of NONCE_CONFLICT."`
	ShouldRetry    *bool   `json:"shouldRetry,omitempty" doc:"Of NONCE_CONFLICT."`
	Output         string  `json:"output,omitempty" doc:"Of WOULD_REVERT: what the call returned, as 0x text."`
	ID             string  `json:"id,omitempty" doc:"Of DUPLICATE: the transaction that has these bytes."`
}

// Known is an error that callers can do something about.
type Known struct {
	Err    error
	Status int
	Code   string
}

// Errors of requests.
var (
	// ErrBusy refuses what asks only. What hands something over is never refused for it.
	ErrBusy = errors.New("too many requests of this caller wait, or read streams, already")
	// ErrCursor means that a stream cannot go on where the caller says.
	ErrCursor = errors.New("this is no id or cursor that a stream of this listener had")
)

// known are those that any listener has.
var known = []Known{
	{ErrBusy, 429, "BUSY"},
	{ErrCursor, 422, "INVALID"},
	{access.ErrAddress, 403, "ADDRESS"},
	{access.ErrUnauthorized, 401, "UNAUTHORIZED"},
	{access.ErrForbidden, 403, "FORBIDDEN"},
}

// maxDetail bounds what a caller reads of somebody else's words: a node may say a megabyte.
const maxDetail = 2 << 10

// Tell sets what the caller gets.
func (p *Problem) Tell(status int, code, detail string) {
	p.Status, p.Code, p.Detail = status, code, detail
}

// Problem turns an error into what the caller gets. What is nobody's fault outside is logged and told without details.
func (s *Server) Problem(ctx context.Context, err error) *Problem {
	if made, ok := errors.AsType[*Problem](err); ok {
		return made
	}
	p := &Problem{}
	of := func(k Known) bool { return errors.Is(err, k.Err) }
	switch i, j := slices.IndexFunc(s.Known, of), slices.IndexFunc(known, of); {
	case s.Judge != nil && s.Judge(ctx, err, p):
	case ledger.IsDown(err):
		p.Tell(http.StatusServiceUnavailable, "UNAVAILABLE", "the ledger does not answer")
	case ledger.OnlyReads(err):
		p.Tell(http.StatusServiceUnavailable, "UNAVAILABLE", "the ledger takes no writes")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		p.Tell(http.StatusServiceUnavailable, "UNAVAILABLE", "no answer in time")
	case i >= 0:
		p.Tell(s.Known[i].Status, s.Known[i].Code, err.Error())
	case j >= 0:
		p.Tell(known[j].Status, known[j].Code, err.Error())
	default:
		p.Tell(http.StatusInternalServerError, "INTERNAL", "an internal error; the log tells more")
		s.Log.ErrorContext(ctx, "a request failed", "listener", s.Of, "err", err)
	}
	return p
}

// Form is where an operation keeps how its errors look, a func(*Problem) huma.StatusError, if that is another way.
const Form = "form"

func spelled(op *huma.Operation, p *Problem) huma.StatusError {
	if other, ok := op.Metadata[Form].(func(*Problem) huma.StatusError); ok {
		return other(p)
	}
	return p
}

// The library asks these for the errors that it finds itself, and for what the document says of errors.
func init() {
	plain := huma.NewError
	huma.NewError = func(status int, detail string, errs ...error) huma.StatusError {
		p := &Problem{Code: "INVALID"}
		p.ErrorModel = *plain(status, detail, errs...).(*huma.ErrorModel)
		p.form()
		return p
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, detail string, errs ...error) huma.StatusError {
		return spelled(ctx.Operation(), huma.NewError(status, detail, errs...).(*Problem))
	}
}

// form gives an error of a request's form, or of a role, the code that programs branch on, and one sentence that says what was wrong.
func (p *Problem) form() {
	if p.Status == http.StatusForbidden {
		p.Code = "FORBIDDEN"
	}
	var told []*huma.ErrorDetail
	for _, e := range p.Errors {
		if n, fraction := e.Value.(float64); fraction && n != math.Trunc(n) || isFraction(e.Value) {
			e.Message = "want a whole number of the chain's smallest unit, such as wei: there is no part of it"
		}
		// Each form that was tried complains of its own; what they are about is said once.
		if !slices.ContainsFunc(told, func(t *huma.ErrorDetail) bool { return t.Location == e.Location }) {
			told = append(told, e)
		}
	}
	if p.Errors = told; len(told) > 0 && told[0].Location != "" {
		p.Detail = clip.Text(told[0].Location+": "+told[0].Message, maxDetail)
	}
}

// isFraction reports whether a value is the text of a decimal fraction, as people write amounts in whole coins.
func isFraction(value any) bool {
	text, _ := value.(string)
	whole, part, ok := strings.Cut(text, ".")
	return ok && whole+part != "" && strings.Trim(whole+part, "0123456789") == ""
}

// Error returns the text for people.
func (p *Problem) Error() string { return p.Detail }

// GetHeaders says when it is worth to ask again, where that is known.
func (p *Problem) GetHeaders() http.Header {
	if p.Status != http.StatusTooManyRequests {
		return nil
	}
	return http.Header{"Retry-After": {"1"}}
}

// ContentType names the form of the body.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// write sends the problem by itself, outside of an operation.
func (p *Problem) write(w http.ResponseWriter) { answer(w, p.ContentType(""), p.Status, p) }

func answer(w http.ResponseWriter, form string, status int, body any) {
	text, _ := json.Marshal(body) // plain fields
	w.Header().Set("Content-Type", form)
	w.WriteHeader(status)
	_, _ = w.Write(text) // who is gone needs no answer
}
