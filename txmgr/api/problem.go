package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/internal/ledger"
	"lockstep/txmgr"
	"lockstep/txmgr/policy"
	"lockstep/txmgr/webhooks"
)

// known lists the errors that callers can do something about. The first that matches counts.
var known = []rest.Known{
	{Err: txmgr.ErrNotFound, Status: 404, Code: "NOT_FOUND"},
	{Err: txmgr.ErrIdempotency, Status: 422, Code: "IDEMPOTENCY_KEY_REUSED"},
	{Err: txmgr.ErrForgotten, Status: 410, Code: "IDEMPOTENCY_KEY_FORGOTTEN"},
	{Err: txmgr.ErrUnknownChain, Status: 422, Code: "UNKNOWN_CHAIN"},
	{Err: txmgr.ErrUnknownSigner, Status: 422, Code: "UNKNOWN_SIGNER"},
	{Err: txmgr.ErrInvalid, Status: 422, Code: "INVALID"},
	{Err: ledger.ErrText, Status: 422, Code: "INVALID"},
	{Err: txmgr.ErrTooLate, Status: 409, Code: "TOO_LATE"},
	{Err: txmgr.ErrNotPossible, Status: 409, Code: "NOT_POSSIBLE"},
	{Err: txmgr.ErrKilled, Status: 503, Code: "KILLED"},
	{Err: txmgr.ErrBudget, Status: 403, Code: "BUDGET"},
	{Err: txmgr.ErrPolicy, Status: 403, Code: "POLICY"},
	{Err: txmgr.ErrWouldRevert, Status: 422, Code: "WOULD_REVERT"},
	{Err: txmgr.ErrUnavailable, Status: 503, Code: "UNAVAILABLE"},
	{Err: txmgr.ErrHalted, Status: 503, Code: "HALTED"},
	{Err: txmgr.ErrDuplicate, Status: 409, Code: "DUPLICATE"},
	{Err: txmgr.ErrReplayed, Status: 409, Code: "REPLAYED"},
	{Err: txmgr.ErrNoReservation, Status: 409, Code: "NO_RESERVATION"},
	{Err: txmgr.ErrTooMany, Status: 429, Code: "TOO_MANY_RESERVATIONS"},
	{Err: txmgr.ErrLocked, Status: 423, Code: "LOCKED"},
	{Err: access.ErrNotFound, Status: 404, Code: "NOT_FOUND"},
	{Err: access.ErrRole, Status: 422, Code: "INVALID"},
	{Err: access.ErrFirst, Status: 422, Code: "INVALID"},
	{Err: access.ErrTenant, Status: 422, Code: "INVALID"},
	{Err: access.ErrNetworks, Status: 422, Code: "INVALID"},
	{Err: policy.ErrNotFound, Status: 404, Code: "NOT_FOUND"},
	{Err: policy.ErrInvalid, Status: 422, Code: "INVALID"},
	{Err: webhooks.ErrNotFound, Status: 404, Code: "NOT_FOUND"},
	{Err: webhooks.ErrTooMany, Status: 422, Code: "TOO_MANY_WEBHOOKS"},
	{Err: webhooks.ErrURL, Status: 422, Code: "INVALID"},
	{Err: webhooks.ErrEvents, Status: 422, Code: "INVALID"},
}

// judge tells what an error with more than a text means, and adds to a problem what a known one has besides.
func (s *Server) judge(ctx context.Context, err error, p *rest.Problem) bool {
	if field, ok := errors.AsType[*txmgr.InvalidError](err); ok {
		p.Errors = []*huma.ErrorDetail{{Location: "body." + field.Field, Message: field.Problem}}
	}
	if revert, ok := errors.AsType[*txmgr.RevertError](err); ok && len(revert.Output) > 0 {
		p.Output = hexutil.Encode(revert.Output)
	}
	var conflict *txmgr.NonceConflict
	var uncertain *ledger.UncertainError
	var rate *policy.RateError
	switch {
	case errors.As(err, &conflict):
		p.Tell(http.StatusConflict, "NONCE_CONFLICT", "the nonce is not the one that can be used")
		p.CurrentNonce, p.AttemptedNonce, p.ShouldRetry = &conflict.Current, &conflict.Attempted, &conflict.Retry
	case errors.As(err, &uncertain):
		p.Tell(http.StatusServiceUnavailable, "UNCERTAIN", "the request may have been stored or not; ask again with the same idempotency key")
		s.log.ErrorContext(ctx, "the answer to a commit was lost", "err", err)
	case errors.As(err, &rate):
		p.Tell(http.StatusTooManyRequests, "RATE_LIMIT", rate.Error())
	default:
		return false
	}
	return true
}
