package ethapi

import (
	"encoding/json"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/internal/relay/capacity"
)

// accountOverride is what a simulation assumes of an account, in the mirror node's form: lists instead of
// Ethereum's objects, and tinybars instead of weibar.
type accountOverride struct {
	Address common.Address  `json:"address"`
	Balance *hexutil.Uint64 `json:"balance,omitempty"` // tinybars
	Nonce   *hexutil.Uint64 `json:"nonce,omitempty"`
	Code    *hexutil.Bytes  `json:"code,omitempty"`
	State   []slotOverride  `json:"state,omitzero"`      // all of its storage
	Diff    []slotOverride  `json:"state_diff,omitzero"` // these words of it
}

type slotOverride struct {
	Key   common.Hash `json:"key"`
	Value common.Hash `json:"value"`
}

// overridesParam is the position of the overrides among the parameters.
const overridesParam = 2

// allTinybars is the whole supply: fifty billion hbar.
const allTinybars hedera.Tinybar = 50_000_000_000 * 100_000_000

// Memory that what a request assumes takes, in bytes. A word of twelve bytes in the request is 154 in the mirror node's form,
// which is there several times while it is sent; in a simulation it is in the state's maps.
const (
	overrideBytes = 1280 // of a word
	copiesOfData  = 4    // of call data, code and lists
)

// stateOverrides translates overrides by address. None, or an empty object, is nil.
func stateOverrides(holding *capacity.Holding, v jsonx.Value) (json.RawMessage, error) {
	all, err := readOverrides(holding, overridesParam, v)
	if all == nil || err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// readOverrides reads overrides by address out of a parameter. The holding has the memory that they take from then on.
func readOverrides(holding *capacity.Holding, parameter int, v jsonx.Value) (all []accountOverride, err error) {
	for address, members := range v.Fields() {
		name := jsonx.Value(quoted(address))
		if err := AddressRule().Verify(parameter, name); err != nil {
			return nil, err
		}
		if members.Null() {
			continue
		}
		if !members.IsObject() {
			return nil, eth.ErrInvalidParam(parameter, "override of %s: Expected an object", address)
		}
		o := accountOverride{Address: addressOf(name)}
		for member, value := range members.Fields() {
			if value.Null() {
				continue
			}
			if err := o.set(holding, parameter, member, value); err != nil {
				return nil, err
			}
		}
		if o.State != nil && o.Diff != nil {
			return nil, eth.ErrInvalidParam(parameter, "override of %s: state and stateDiff are mutually exclusive", address)
		}
		all = append(all, o)
	}
	return all, nil
}

// set reads one member of an override. Members that Ethereum does not have are ignored. A member of Ethereum's
// that the mirror node does not support is refused.
func (o *accountOverride) set(holding *capacity.Holding, parameter int, member string, v jsonx.Value) error {
	wrong := func(what string) error {
		return eth.ErrInvalidParam(parameter, "override of %s: %s: %s", lowerAddress(o.Address), member, what)
	}
	switch member {
	case "balance":
		if !quantityRule(64).Matches(v) {
			return wrong(quantityRule(64).Phrase)
		}
		tinybars, ok := hedera.TinybarOf(v.Big())
		if !ok || tinybars > allTinybars {
			tinybars = allTinybars // simulations often ask for the largest number
		}
		balance := hexutil.Uint64(tinybars)
		o.Balance = &balance
	case "nonce":
		if !quantityRule(16).Matches(v) {
			return wrong(quantityRule(16).Phrase)
		}
		n, _ := v.Uint64()
		o.Nonce = (*hexutil.Uint64)(&n)
	case "code":
		if !HexBytesRule().Matches(v) {
			return wrong(HexBytesRule().Phrase)
		}
		if err := holding.Take(copiesOfData * len(v)); err != nil {
			return err
		}
		code := hexutil.Bytes(v.Bytes())
		o.Code = &code
	case "state", "stateDiff":
		slots, ok, err := slotOverrides(holding, v)
		if err != nil {
			return err
		}
		if !ok {
			return wrong("Expected an object of 32-byte words by 32-byte keys")
		}
		if member == "state" {
			o.State = slots
		} else {
			o.Diff = slots
		}
	case "movePrecompileToAddress":
		return wrong("not supported")
	}
	return nil
}

func slotOverrides(holding *capacity.Holding, v jsonx.Value) (slots []slotOverride, ok bool, err error) {
	if !v.IsObject() {
		return nil, false, nil
	}
	slots = []slotOverride{}
	for key, value := range v.Fields() {
		name := jsonx.Value(quoted(key))
		if !wordRule().Matches(name) || !wordRule().Matches(value) {
			return nil, false, nil
		}
		if err := holding.Take(overrideBytes); err != nil {
			return nil, false, err
		}
		slots = append(slots, slotOverride{wordOf(name), wordOf(value)})
	}
	return slots, true, nil
}

// wordOf returns a number with any count of digits as 32 bytes.
func wordOf(v jsonx.Value) common.Hash { return common.BigToHash(v.Big()) }

func lowerAddress(a common.Address) string { return hexutil.Encode(a[:]) }
