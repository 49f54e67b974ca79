package mirrorrest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
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
	return r.simulate(body)
}

// simulate answers a call here.
func (r *request) simulate(body *callBody) (any, error) {
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
	return callAnswer(result, hexutil.Encode(result.Output))
}

// readCall decodes the body of the request.
func readCall(r *request) (*callBody, error) {
	if media, _, err := mime.ParseMediaType(r.Request.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, detailed(http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type '%.100s' is not supported", media))
	}
	raw, err := io.ReadAll(r.Body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
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
	var block *history.Block
	var ok bool
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
	if errors.Is(err, evm.ErrSenderNotFound) {
		return &problem{
			status:   http.StatusBadRequest,
			messages: []message{fullMessage(hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND.String(), "Sender account not found.", "")},
		}
	}
	return fmt.Errorf("simulate: %w", err)
}

// callAnswer turns the outcome of a simulation into an answer or an error.
func callAnswer(result evm.CallResult, success string) (any, error) {
	switch {
	case hedera.Succeeded(result.Status):
		return object{"result": success}, nil
	case result.Status == hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED:
		reason := revertReason(result.RevertData)
		return nil, &problem{
			status:   http.StatusBadRequest,
			messages: []message{fullMessage(result.Status.String(), reason, hexutil.Encode(result.RevertData))},
		}
	default:
		return nil, &problem{
			status:   failureStatus(result.Status),
			messages: []message{fullMessage(result.Status.String(), "", "")},
		}
	}
}

// revertReason is the text of Error(string). It is empty for any other revert, a panic code too.
func revertReason(data []byte) string {
	if !bytes.HasPrefix(data, []byte{0x08, 0xc3, 0x79, 0xa0}) {
		return ""
	}
	reason, _ := abi.UnpackRevert(data) // what is malformed has none
	return reason
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

// A callBody is the body of contracts/call. Numbers are tinybar and gas. Fields it
// does not have are ignored.
type callBody struct {
	Block     string         `json:"block"`
	Data      string         `json:"data"`
	Estimate  *bool          `json:"estimate"`
	From      string         `json:"from"`
	Gas       *int64         `json:"gas"`
	GasPrice  int64          `json:"gasPrice"` // in weibar; checked, and ignored, as the network's mirror node does
	To        string         `json:"to"`
	Value     int64          `json:"value"`
	Overrides []overrideBody `json:"state_overrides"`

	raw []byte // as it came
}

// An overrideBody replaces parts of one account for a call; numbers are hex, the
// balance is tinybar.
type overrideBody struct {
	Address   string     `json:"address"`
	Balance   string     `json:"balance"`
	Nonce     string     `json:"nonce"`
	Code      *string    `json:"code"`
	State     []slotBody `json:"state"`
	StateDiff []slotBody `json:"state_diff"`
}

type slotBody struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

const (
	maxOverrides     = 10
	maxOverrideSlots = 100
)

func parseCall(raw []byte) (*callBody, error) {
	var body callBody
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, detailed(http.StatusBadRequest, "Unable to parse JSON")
	}
	body.raw = raw
	return &body, nil
}

// call checks the body and turns it into a request to the ledger. It reports
// every field that is wrong.
func (b *callBody) call() (evm.CallRequest, []string) {
	var problems []string
	wrong := func(field, text string) { problems = append(problems, field+" field "+text) }
	call := evm.CallRequest{
		Gas:   maxCallGas,
		Value: hedera.Tinybar(b.Value),
	}
	const notHex = "invalid hexadecimal string"
	var ok bool
	if call.Data, ok = fieldHex(b.Data, maxCallLen); !ok {
		wrong("data", notHex)
	}
	if b.From != "" {
		if call.From, ok = fieldAddress(b.From); !ok {
			wrong("from", notHex)
		} else if *call.From == (common.Address{}) {
			call.From = nil // nobody: as if it were not there
		}
	}
	if b.To != "" {
		if call.To, ok = fieldAddress(b.To); !ok {
			wrong("to", notHex)
		}
	}
	if b.Gas != nil {
		switch {
		case *b.Gas < minCallGas:
			wrong("gas", fmt.Sprintf("must be greater than or equal to %d", minCallGas))
		case *b.Gas > maxCallGas:
			wrong("gas", fmt.Sprintf("must be less than or equal to %d", maxCallGas))
		default:
			call.Gas = uint64(*b.Gas)
		}
	}
	if b.GasPrice < 0 {
		wrong("gasPrice", "must be greater than or equal to 0")
	}
	if b.Value < 0 {
		wrong("value", "must be greater than or equal to 0")
	}
	if b.Value > 0 && b.From == "" {
		wrong("from", "must not be empty")
	}
	if b.To == "" && (len(call.Data) == 0 || b.Value > 0 && !looksLikeInitCode(call.Data)) {
		wrong("to", "must not be empty")
	}
	if call.Override, ok = b.overrides(); !ok {
		wrong("state_overrides", "invalid")
	}
	return call, problems
}

func (b *callBody) overrides() (map[common.Address]state.Override, bool) {
	if len(b.Overrides) == 0 {
		return nil, true
	}
	if len(b.Overrides) > maxOverrides {
		return nil, false
	}
	all := map[common.Address]state.Override{}
	for _, o := range b.Overrides {
		address, ok := fieldAddress(o.Address)
		if !ok {
			return nil, false
		}
		if _, twice := all[*address]; twice {
			return nil, false
		}
		if all[*address], ok = o.override(); !ok {
			return nil, false
		}
	}
	return all, true
}

func (o *overrideBody) override() (out state.Override, ok bool) {
	if len(o.State) > 0 && len(o.StateDiff) > 0 {
		return out, false
	}
	if o.Balance != "" {
		n, ok := hexNumber(o.Balance)
		if !ok || n > 1<<63-1 {
			return out, false
		}
		out.Balance = new(hedera.Tinybar(n))
	}
	if o.Nonce != "" {
		n, ok := hexNumber(o.Nonce)
		if !ok {
			return out, false
		}
		out.Nonce = &n
	}
	if o.Code != nil {
		code, ok := parseHex(*o.Code)
		if !ok {
			return out, false
		}
		out.Code = code
	}
	if out.State, ok = slotsOf(o.State); !ok {
		return out, false
	}
	out.StateDiff, ok = slotsOf(o.StateDiff)
	return out, ok
}

func slotsOf(entries []slotBody) (map[common.Hash]common.Hash, bool) {
	if len(entries) == 0 {
		return nil, true
	}
	if len(entries) > maxOverrideSlots {
		return nil, false
	}
	slots := make(map[common.Hash]common.Hash, len(entries))
	for _, e := range entries {
		key, keyOK := parseWord(e.Key)
		value, valueOK := parseWord(e.Value)
		if !keyOK || !valueOK {
			return nil, false
		}
		slots[key] = value
	}
	return slots, true
}

// hexNumber reads up to 16 hex digits.
func hexNumber(text string) (uint64, bool) {
	if len(trimPrefix(text)) > 16 {
		return 0, false
	}
	word, ok := parseWord(text)
	return binary.BigEndian.Uint64(word[24:]), ok
}
