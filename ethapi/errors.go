package ethapi

import (
	"context"
	"errors"
	"strings"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/eth"
	"lockstep/mirror"
	"lockstep/rpc"
)

// Names that the mirror node gives to failed simulations.
const (
	statusReverted    = "CONTRACT_REVERT_EXECUTED"
	statusFailInvalid = "FAIL_INVALID"
	statusNoFunds     = "INSUFFICIENT_PAYER_BALANCE"
	statusNoGas       = "INSUFFICIENT_GAS"
)

// clientError turns a failure below into what a client may see. What already is an
// error for clients stays as it is, and so do the errors of a context.
func clientError(err error) error {
	var client *eth.Error
	var upstream *mirror.Error
	var pages *mirror.PagesError
	switch {
	case err == nil, errors.As(err, &client):
		return err
	case errors.As(err, &upstream):
		return eth.ErrUpstream(upstream.Status, upstream.Message)
	case errors.As(err, &pages):
		return eth.ErrPages(pages.Limit)
	case errors.Is(err, mirror.ErrImmature):
		return eth.ErrImmatureRecords()
	}
	return err
}

// callError is clientError for a simulation: what the simulated code did is told
// apart from a mirror node that could not simulate it.
func (a *API) callError(err error) error {
	var e *mirror.Error
	if !errors.As(err, &e) {
		return clientError(err)
	}
	switch {
	case e.Message == statusReverted:
		return a.reverted(e)
	case e.Message == statusFailInvalid:
		return eth.ErrReverted(statusFailInvalid, a.revertData(hexBytes(e.Data)))
	case e.Status == 404:
		return eth.ErrUnknownBlock()
	case e.Status == 400:
		return notSimulated(e)
	}
	return clientError(err)
}

// notSimulated is what the mirror node refuses to simulate, or could not to its end.
func notSimulated(e *mirror.Error) *eth.Error {
	reason := said(e.Message, e.Detail)
	switch e.Message {
	case statusNoFunds:
		return eth.ErrSimulationFunds(reason)
	case statusNoGas:
		return eth.ErrSimulationGas(reason)
	}
	return eth.ErrSimulation(reason)
}

func (a *API) reverted(e *mirror.Error) *eth.Error {
	data := hexBytes(e.Data)
	decoded, _ := revertReason(data)
	if !a.hiero() {
		return eth.ErrReverted(decoded, a.revertData(data))
	}
	reason := said(e.Message, e.Detail)
	if e.Detail == "" && decoded != "" {
		reason = decoded
	}
	// The detail can be what was to be decoded.
	if text, ok := revertReason(hexBytes(reason)); ok {
		reason = text
	}
	parts := []string{reason}
	for _, child := range e.Children {
		parts = append(parts, said(child.Message, child.Detail))
	}
	return eth.ErrReverted(strings.Join(parts, ", "), a.revertData(data))
}

// revertData is how a profile shows what a call reverted with. For nothing at all
// established relays have an empty text, which libraries for Ethereum do not take for data.
func (a *API) revertData(data []byte) string {
	if len(data) == 0 && a.hiero() {
		return ""
	}
	return hexutil.Encode(data)
}

func said(message, detail string) string {
	if detail != "" {
		return detail
	}
	return message
}

// hexBytes decodes 0x-prefixed hex; anything else is nothing.
func hexBytes(text string) []byte {
	data, err := hexutil.Decode(text)
	if err != nil {
		return nil
	}
	return data
}

// notFound tells whether the mirror node does not know the thing; it turns that into
// no error.
func notFound(err error) (bool, error) {
	if errors.Is(err, mirror.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// translated is a handler whose errors are for clients.
func translated(h rpc.Handler) rpc.Handler {
	return func(ctx context.Context, p *rpc.Params) (any, error) {
		result, err := h(ctx, p)
		if err != nil {
			return nil, clientError(err)
		}
		return result, nil
	}
}
