package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"lockstep/internal/access"
	"lockstep/internal/clip"
	"lockstep/internal/ledger"
	"lockstep/txmgr"
	"lockstep/txmgr/policy"
	"lockstep/txmgr/webhooks"
)

// Problem is an error as RFC 9457 describes it.
type Problem struct {
	huma.ErrorModel
	Code string `json:"code" doc:"What programs branch on."`
	// Of a NONCE_CONFLICT.
	CurrentNonce   *uint64 `json:"currentNonce,omitempty"`
	AttemptedNonce *uint64 `json:"attemptedNonce,omitempty"`
	ShouldRetry    *bool   `json:"shouldRetry,omitempty"`
	// Of WOULD_REVERT: what the call returned.
	Output Bytes `json:"output,omitempty"`
	// Of DUPLICATE: the transaction that has these bytes.
	ID string `json:"id,omitempty"`
}

// known lists the errors that callers can do something about. The first that matches counts.
var known = []struct {
	err    error
	status int
	code   string
}{
	{txmgr.ErrNotFound, 404, "NOT_FOUND"},
	{txmgr.ErrIdempotency, 422, "IDEMPOTENCY_KEY_REUSED"},
	{txmgr.ErrForgotten, 410, "IDEMPOTENCY_KEY_FORGOTTEN"},
	{txmgr.ErrUnknownChain, 422, "UNKNOWN_CHAIN"},
	{txmgr.ErrUnknownSigner, 422, "UNKNOWN_SIGNER"},
	{txmgr.ErrInvalid, 422, "INVALID"},
	{ledger.ErrText, 422, "INVALID"},
	{txmgr.ErrTooLate, 409, "TOO_LATE"},
	{txmgr.ErrNotPossible, 409, "NOT_POSSIBLE"},
	{txmgr.ErrKilled, 503, "KILLED"},
	{txmgr.ErrBudget, 403, "BUDGET"},
	{txmgr.ErrPolicy, 403, "POLICY"},
	{txmgr.ErrWouldRevert, 422, "WOULD_REVERT"},
	{txmgr.ErrUnavailable, 503, "UNAVAILABLE"},
	{txmgr.ErrHalted, 503, "HALTED"},
	{txmgr.ErrDuplicate, 409, "DUPLICATE"},
	{txmgr.ErrReplayed, 409, "REPLAYED"},
	{txmgr.ErrNoReservation, 409, "NO_RESERVATION"},
	{txmgr.ErrTooMany, 429, "TOO_MANY_RESERVATIONS"},
	{txmgr.ErrLocked, 423, "LOCKED"},
	{access.ErrNotFound, 404, "NOT_FOUND"},
	{access.ErrRole, 422, "INVALID"},
	{access.ErrFirst, 422, "INVALID"},
	{access.ErrTenant, 422, "INVALID"},
	{access.ErrNetworks, 422, "INVALID"},
	{access.ErrAddress, 403, "ADDRESS"},
	{access.ErrUnauthorized, 401, "UNAUTHORIZED"},
	{policy.ErrNotFound, 404, "NOT_FOUND"},
	{policy.ErrInvalid, 422, "INVALID"},
	{webhooks.ErrNotFound, 404, "NOT_FOUND"},
	{webhooks.ErrTooMany, 422, "TOO_MANY_WEBHOOKS"},
	{webhooks.ErrURL, 422, "INVALID"},
	{webhooks.ErrEvents, 422, "INVALID"},
	{errBusy, 429, "BUSY"},
	{access.ErrForbidden, 403, "FORBIDDEN"},
}

// errBusy refuses what asks only. What hands something over is never refused for it.
var errBusy = errors.New("too many requests of this tenant wait, or read streams, already")

// problem turns an error into what the caller gets. What is nobody's fault outside is
// logged and told without details.
func (s *Server) problem(ctx context.Context, err error) *Problem {
	if made, ok := errors.AsType[*Problem](err); ok {
		return made
	}
	p := &Problem{Code: "INTERNAL"}
	p.Status, p.Detail = http.StatusInternalServerError, "an internal error; the log tells more"
	var conflict *txmgr.NonceConflict
	var uncertain *ledger.UncertainError
	var rate *policy.RateError
	switch {
	case errors.As(err, &conflict):
		p.Status, p.Code, p.Detail = http.StatusConflict, "NONCE_CONFLICT", "the nonce is not the one that can be used"
		p.CurrentNonce, p.AttemptedNonce, p.ShouldRetry = &conflict.Current, &conflict.Attempted, &conflict.Retry
	case errors.As(err, &uncertain):
		p.Status, p.Code, p.Detail = http.StatusServiceUnavailable, "UNCERTAIN", "the request may have been stored or not; ask again with the same idempotency key"
		s.log.ErrorContext(ctx, "the answer to a commit was lost", "err", err)
	case errors.As(err, &rate):
		p.Status, p.Code, p.Detail = http.StatusTooManyRequests, "RATE_LIMIT", rate.Error()
	case ledger.IsDown(err):
		p.Status, p.Code, p.Detail = http.StatusServiceUnavailable, "UNAVAILABLE", "the ledger does not answer"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		p.Status, p.Code, p.Detail = http.StatusServiceUnavailable, "UNAVAILABLE", "no answer in time"
	default:
		s.classify(ctx, err, p)
	}
	if field, ok := errors.AsType[*txmgr.InvalidError](err); ok {
		p.Errors = []*huma.ErrorDetail{{Location: "body." + field.Field, Message: field.Problem}}
	}
	if revert, ok := errors.AsType[*txmgr.RevertError](err); ok {
		p.Output = revert.Output
	}
	p.Title, p.Detail = http.StatusText(p.Status), short(p.Detail)
	return p
}

// maxDetail bounds what a caller reads of somebody else's words: a node may say a megabyte.
const maxDetail = 2 << 10

func short(text string) string { return clip.Text(text, maxDetail) }

// formProblem gives an error of a request's form, or of a role, the code that programs branch on, and one sentence that says what was wrong.
func formProblem(_ huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := &Problem{ErrorModel: *model, Code: "INVALID"}
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
		p.Detail = short(told[0].Location + ": " + told[0].Message)
	}
	return p, nil
}

// isFraction reports whether a value is the text of a decimal fraction, as people write amounts in whole coins.
func isFraction(value any) bool {
	text, _ := value.(string)
	whole, part, ok := strings.Cut(text, ".")
	return ok && whole+part != "" && strings.Trim(whole+part, "0123456789") == ""
}

func (s *Server) classify(ctx context.Context, err error, p *Problem) {
	for _, k := range known {
		if errors.Is(err, k.err) {
			p.Status, p.Code, p.Detail = k.status, k.code, err.Error()
			return
		}
	}
	s.log.ErrorContext(ctx, "a request of the transaction manager failed", "err", err)
}

// Error returns the text for people.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders says when it is worth to ask again, where that is known.
func (p *Problem) GetHeaders() http.Header {
	if p.Status != http.StatusTooManyRequests {
		return nil
	}
	return http.Header{"Retry-After": {"1"}}
}

// ContentType names the form of the body.
func (p *Problem) ContentType(string) string { return "application/problem+json" }
