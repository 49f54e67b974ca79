package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"lockstep/eth"
)

// coded is an error that carries its own JSON-RPC code and is shown to the
// client as it is. It may also have ErrorData() any.
type coded interface {
	error
	ErrorCode() int
}

// fault is an error in the form in which it goes to the client.
type fault struct {
	code     int
	message  string
	ethereum string // what Ethereum's nodes say, if that is another text
	data     any
}

// translate turns a handler's error into what the client sees. unexpected is
// true if the error is none that clients are meant to see, so that the operator
// should. The text of a wrapper around a coded error stays inside the process.
func (p Profile) translate(err error) (f fault, unexpected bool) {
	var c coded
	if e, ok := err.(*eth.Error); ok { //nolint:errorlint // the usual case, without a search
		return known(e), false
	}
	if errors.As(err, &c) {
		f = fault{code: c.ErrorCode(), message: c.Error()}
		if d, ok := c.(interface{ ErrorData() any }); ok {
			f.data = d.ErrorData()
		}
		return f, false
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return known(eth.ErrRequestTimeout()), false
	}
	if p == ProfileEthereum {
		// An unforeseen text may name upstream hosts.
		return fault{code: eth.CodeInternal, message: "internal error"}, true
	}
	return known(eth.ErrInternal("%s", err.Error())), true
}

func known(e *eth.Error) fault { return fault{e.Code, e.Message, e.Ethereum, e.Data} }

// panicFault says nothing of the panic's value, which is for the log only.
func (p Profile) panicFault() fault {
	if p == ProfileEthereum {
		return fault{code: eth.CodeInternal, message: "internal error"}
	}
	return fault{code: eth.CodeInternal, message: "Unknown error invoking RPC"}
}

// methodUnknown is the answer to a name that is not in the table. Whole
// namespaces that exist on other chains are told apart from misspellings.
func methodUnknown(name string, t Transport) fault {
	switch namespace(name) {
	case "engine":
		return known(eth.ErrUnsupportedMethod())
	case "trace", "debug":
		if t == TransportHTTP {
			return known(eth.ErrNotYetImplemented())
		}
	}
	if t == TransportWebSocket && (name == "eth_subscribe" || name == "eth_unsubscribe") {
		return known(eth.ErrUnsupportedMethod())
	}
	return known(eth.ErrMethodNotFound(name))
}

// Status codes of HTTP answers that carry a single JSON-RPC error.

// httpStatus maps an error to the HTTP status of its answer. valid is the
// configured status of well-formed calls that failed.
func (p Profile) httpStatus(f fault, valid int) int {
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
	if ex.face.transport == TransportWebSocket && ex.d.config.Profile == ProfileHiero {
		return fault{code: eth.CodeInvalidRequest, message: "Invalid request"}
	}
	return known(eth.ErrParse())
}

// scalarFault answers a body that is JSON, but not a call or a batch.
func (ex *exchange) scalarFault() fault {
	if ex.face.transport == TransportHTTP && ex.d.config.Profile == ProfileHiero {
		return known(eth.ErrParse())
	}
	return known(eth.ErrInvalidRequest())
}
