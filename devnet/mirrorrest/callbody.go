package mirrorrest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

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
	return &body, nil
}

// call checks the body and turns it into a request to the ledger. It reports
// every field that is wrong.
func (b *callBody) call() (ledger.CallRequest, []string) {
	var problems []string
	wrong := func(field, text string) { problems = append(problems, field+" field "+text) }
	call := ledger.CallRequest{
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
		out.Balance = ptr(hedera.Tinybar(n))
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
