package mirrorrest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const (
	minCallGas = 21_000
	maxCallGas = 15_000_000
	maxCallLen = 131_072 // bytes of call data
)

// callContract answers contracts/call: it runs a call on the state at the end of a
// block without keeping its effects, or finds how much gas the call needs.
func callContract(r *request) (any, error) {
	body, err := readCall(r)
	if err != nil {
		return nil, err
	}
	call, problems := body.call()
	if len(problems) > 0 {
		return nil, detailed(http.StatusBadRequest, problems...)
	}
	view, err := r.stateAt(body.Block)
	if err != nil {
		return nil, err
	}
	if body.Estimate != nil && *body.Estimate {
		gas, result, err := view.Estimate(r.Context(), call)
		if err != nil {
			return nil, callError(err)
		}
		return callAnswer(result, fmt.Sprintf("0x%016x", gas))
	}
	result, err := view.Call(r.Context(), call)
	if err != nil {
		return nil, callError(err)
	}
	return callAnswer(result, hexText(result.Output))
}

// readCall decodes the body of the request.
func readCall(r *request) (*callBody, error) {
	if media, _, err := mime.ParseMediaType(r.Request.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, detailed(http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type '%.100s' is not supported", media))
	}
	raw, err := io.ReadAll(r.Body)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, detailed(http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is over %d bytes", tooLarge.Limit))
	}
	if err != nil {
		return nil, detailed(http.StatusBadRequest, "Unable to read the body")
	}
	return parseCall(raw)
}

// stateAt is the view at the end of the block that a call asks for.
func (r *request) stateAt(text string) (*ledger.View, error) {
	switch strings.ToLower(text) {
	case "", "latest", "pending", "safe", "finalized":
		return r.view, nil
	case "earliest":
		text = "0"
	}
	block, ok := (*ledger.Block)(nil), false
	if hash, is := parseHash(text); is && strings.HasPrefix(strings.ToLower(text), "0x") {
		block, ok = r.view.BlockByHash(hash)
	} else if number, err := parseCallBlock(text); err != nil {
		return nil, detailed(http.StatusBadRequest, "block field invalid value")
	} else {
		block, ok = r.view.BlockByNumber(number)
	}
	if !ok {
		return nil, detailed(http.StatusNotFound, fmt.Sprintf("Unknown block: %s", text))
	}
	return r.view.At(block.To), nil
}

// parseCallBlock reads a decimal number of up to 20 digits, or 0x and up to 16 hex
// digits. A number beyond int64 is that of a block which does not exist.
func parseCallBlock(text string) (int64, error) {
	base, longest := 10, 20
	if trimmed := trimPrefix(text); trimmed != text {
		text, base, longest = trimmed, 16, 16
	}
	if len(text) > longest {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseUint(text, base, 63)
	if errors.Is(err, strconv.ErrRange) {
		return absent, nil
	}
	return int64(n), err
}

// callError is for what kept a simulation from running at all.
func callError(err error) error {
	if errors.Is(err, ledger.ErrSenderNotFound) {
		return &problem{
			status:   http.StatusBadRequest,
			messages: []message{fullMessage(hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND.String(), "Sender account not found.", "")},
		}
	}
	return fmt.Errorf("simulate: %w", err)
}

// callAnswer turns the outcome of a simulation into an answer or an error.
func callAnswer(result ledger.CallResult, success string) (any, error) {
	switch {
	case hedera.Succeeded(result.Status):
		return object{"result": success}, nil
	case result.Status == hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED:
		reason := revertReason(result.RevertData)
		return nil, &problem{
			status:   http.StatusBadRequest,
			messages: []message{fullMessage(result.Status.String(), reason, hexText(result.RevertData))},
		}
	default:
		return nil, &problem{
			status:   failureStatus(result.Status),
			messages: []message{fullMessage(result.Status.String(), "", "")},
		}
	}
}

// revertReason reads the text out of the ABI form of Error(string): selector,
// offset 32, length, bytes. It is empty for any other revert, a panic code too.
func revertReason(data []byte) string {
	const head = 4 + 32 + 32
	if len(data) < head || !bytes.HasPrefix(data, []byte{0x08, 0xc3, 0x79, 0xa0}) {
		return ""
	}
	offset, length := new(big.Int).SetBytes(data[4:36]), new(big.Int).SetBytes(data[36:head])
	if offset.Cmp(big.NewInt(32)) != 0 || length.Cmp(big.NewInt(int64(len(data)-head))) > 0 {
		return ""
	}
	return string(data[head : head+int(length.Int64())])
}

// failureStatus: most statuses are about the call, a few about the network.
func failureStatus(s hedera.Status) int {
	name := s.String()
	switch name {
	case "FAIL_INVALID", "FAIL_FEE", "FAIL_BALANCE", "UNKNOWN":
		return http.StatusInternalServerError
	}
	if strings.HasPrefix(name, "PLATFORM_") {
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// looksLikeInitCode tells code that returns code from data for a call: it copies
// and returns.
func looksLikeInitCode(data []byte) bool {
	const codecopy, ret = 0x39, 0xf3
	i := bytes.IndexByte(data, codecopy)
	return i >= 0 && bytes.IndexByte(data[i:], ret) > 0
}

func fieldHex(text string, maxBytes int) ([]byte, bool) {
	text = trimPrefix(text)
	if len(text) > 2*maxBytes {
		return nil, false
	}
	b, err := hex.DecodeString(text)
	return b, err == nil
}

func fieldAddress(text string) (*common.Address, bool) {
	b, ok := fieldHex(text, common.AddressLength)
	if !ok || len(b) != common.AddressLength {
		return nil, false
	}
	a := common.BytesToAddress(b)
	return &a, true
}
