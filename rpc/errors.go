package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"lockstep/internal/eth"
	"lockstep/internal/relay/capacity"
)

// coded is an error with its own JSON-RPC code. The client gets it as it is. It may also have ErrorData() any.
type coded interface {
	error
	ErrorCode() int
}

// fault is an error in the form in which it goes to the client.
type fault struct {
	code     int
	message  string
	ethereum string // the text of Ethereum's nodes, if it is another one
	data     any
	status   int // of HTTP, if it does not follow from the code
}

// translate turns a handler's error into what the client sees. unexpected is true if the error is not meant for
// clients, so that the operator should see it. The text of a wrapper around a coded error stays inside the
// process.
func (p Profile) translate(err error) (f fault, unexpected bool) {
	var c coded
	if e, ok := err.(*eth.Error); ok { //nolint:errorlint // the usual case, without a search
		return known(e), false
	}
	if exceeded := (*capacity.Exceeded)(nil); errors.As(err, &exceeded) {
		return overCapacity(exceeded), false
	}
	if errors.As(err, &c) {
		f = fault{code: c.ErrorCode(), message: c.Error()}
		if d, ok := c.(interface{ ErrorData() any }); ok {
			f.data = d.ErrorData()
		}
		return f, false
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return known(eth.ErrRequestTimeout), false
	}
	if p == ProfileEthereum {
		// An unforeseen text may name upstream hosts.
		return fault{code: eth.CodeInternal, message: "internal error"}, true
	}
	return known(eth.ErrInternal("%s", err.Error())), true
}

func known(e *eth.Error) fault {
	return fault{code: e.Code, message: e.Message, ethereum: e.Ethereum, data: e.Data}
}

// overCapacity tells which limit a request would go over. A limit that others use up is free again soon.
func overCapacity(e *capacity.Exceeded) (f fault) {
	switch e.Scope {
	case capacity.ScopeRequest:
		return known(eth.ErrRequestMemory(e.Limit))
	case capacity.ScopeTime:
		return known(eth.ErrRequestTime(e.Limit))
	case capacity.ScopeClient:
		f = known(eth.ErrClientMemory(e.Limit))
		f.status = http.StatusTooManyRequests
	case capacity.ScopeProcess:
		f = known(eth.ErrProcessMemory)
		f.status = http.StatusServiceUnavailable
	case capacity.ScopeQueue:
		f = known(eth.ErrCallsWaiting)
		f.status = http.StatusServiceUnavailable
	}
	return f
}

// panicFault does not name the panic's value, which is for the log only.
func (p Profile) panicFault() fault {
	if p == ProfileEthereum {
		return fault{code: eth.CodeInternal, message: "internal error"}
	}
	return fault{code: eth.CodeInternal, message: "Unknown error invoking RPC"}
}

// Status codes of HTTP answers that carry a single JSON-RPC error.

// httpStatus maps an error to the HTTP status of its answer. valid is the
// configured status of well-formed calls that failed.
func (p Profile) httpStatus(f fault, valid int) int {
	if f.status != 0 {
		return f.status
	}
	switch f.code {
	case eth.CodeParse, eth.CodeInvalidRequest:
		return http.StatusBadRequest
	case eth.CodeRateLimited:
		return http.StatusTooManyRequests
	}
	if p == ProfileEthereum || f.code == eth.CodeReverted {
		return http.StatusOK
	}
	status := http.StatusBadRequest
	switch f.code {
	case eth.CodeInternal:
		status = http.StatusInternalServerError
	case eth.CodeUpstream:
		status = upstreamStatus(f.data)
	}
	if status == http.StatusBadRequest {
		return valid
	}
	return status
}

func upstreamStatus(data any) int {
	switch data {
	case http.StatusNotFound:
		return http.StatusBadRequest
	case http.StatusTooManyRequests, http.StatusNotImplemented:
		return data.(int)
	}
	return http.StatusInternalServerError
}

// Errors of batches.

func batchDisabled() fault {
	return fault{code: eth.CodeBatchDisabled, message: "Batch requests are disabled"}
}

func wsBatchDisabled() fault {
	return fault{code: eth.CodeWSBatchDisabled, message: "WS batch requests are disabled"}
}

func batchTooLarge(count, limit int) fault {
	return fault{
		code:    eth.CodeBatchTooLarge,
		message: fmt.Sprintf("Batch request amount %d exceeds max %d", count, limit),
	}
}

func notInBatch(method string) fault {
	return fault{
		code:    eth.CodeNotInBatch,
		message: "Method " + method + " is not permitted as part of batch requests",
	}
}

// parseFault answers a body that is not JSON.
func (ex *exchange) parseFault() fault {
	if ex.endpoint.transport == TransportWebSocket && ex.d.config.Profile == ProfileHiero {
		return fault{code: eth.CodeInvalidRequest, message: "Invalid request"}
	}
	return known(eth.ErrParse)
}

// scalarFault answers a body that is JSON, but not a call or a batch.
func (ex *exchange) scalarFault() fault {
	if ex.endpoint.transport == TransportHTTP && ex.d.config.Profile == ProfileHiero {
		return known(eth.ErrParse)
	}
	return known(eth.ErrInvalidRequest)
}
