package ethapi

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
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

// clientError turns a failure below into an error that a client may see. An error for clients stays as it is, and
// so does that of a context.
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
		return eth.ErrImmatureRecords
	}
	return err
}

// callError is clientError for a simulation: it tells failures of the simulated code from those of the mirror
// node.
func (a *API) callError(err error) error {
	var e *mirror.Error
	if !errors.As(err, &e) {
		return clientError(err)
	}
	switch {
	case e.Message == statusReverted:
		return a.reverted(e)
	case e.Message == statusFailInvalid:
		return eth.ErrReverted(statusFailInvalid, a.revertData(e))
	case e.Status == 404:
		return eth.ErrUnknownBlock
	case e.Status == 400 && e.Told: // a gateway's is about the request, not about the call
		return notSimulated(e)
	}
	return clientError(err)
}

// notSimulated is the error for a call that the mirror node refused to simulate, or could not finish.
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

// reverted is the error of a call that reverted. Profile hiero has the mirror node's text where that says more
// than the name of the status: it does so for texts, but not for Solidity's panics.
func (a *API) reverted(e *mirror.Error) *eth.Error {
	data := hexBytes(e.Data)
	if !a.hiero() {
		decoded, _ := revertReason(data)
		return eth.ErrReverted(decoded, a.revertData(e))
	}
	reason := said(e.Message, e.Detail)
	if text, ok := revertText(data); ok && e.Detail == "" && text != "" {
		reason = text
	}
	// The detail can be the data that must be decoded.
	if text, ok := revertReason(hexBytes(reason)); ok {
		reason = text
	}
	parts := []string{reason}
	for _, child := range e.Children {
		parts = append(parts, said(child.Message, child.Detail))
	}
	return eth.ErrReverted(strings.Join(parts, ", "), a.revertData(e))
}

// revertData is the data of a revert. If the mirror node gives none, the TypeScript relay has an empty text.
func (a *API) revertData(e *mirror.Error) string {
	if e.Data == "" && a.hiero() {
		return ""
	}
	return hexutil.Encode(hexBytes(e.Data))
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

// notFound tells whether the mirror node does not know something; then it returns no error.
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

// What revert data begins with that Solidity itself has made.
const (
	errorSelector = "\x08\xc3\x79\xa0" // Error(string)
	panicSelector = "\x4e\x48\x7b\x71" // Panic(uint256)
)

// revertReason decodes revert data made by Solidity itself. The data of other errors has no reason.
func revertReason(data []byte) (reason string, ok bool) {
	if code, panicked := bytes.CutPrefix(data, []byte(panicSelector)); panicked && (len(code) != 32 || strings.Trim(string(code[:28]), "\x00") != "") {
		return "", false // no panic of Solidity's has such a code
	}
	reason, err := abi.UnpackRevert(data)
	if err != nil || !utf8.ValidString(reason) {
		return "", false
	}
	return reason, true
}

// revertText is revertReason of Error(string) alone.
func revertText(data []byte) (text string, ok bool) {
	if !bytes.HasPrefix(data, []byte(errorSelector)) {
		return "", false
	}
	return revertReason(data)
}
