package mirrorrest

import (
	"encoding/json"
	"math/big"

	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

// money is the unit of amounts and prices in an answer.
type money bool

const (
	tinybars money = true
	weibars  money = false
)

// ofWeibar writes a signed amount or price, given in weibar as it was signed.
func (m money) ofWeibar(v *big.Int) *big.Int {
	if m == weibars || v == nil {
		return v
	}
	return new(big.Int).Quo(v, big.NewInt(hedera.WeibarPerTinybar))
}

func (m money) ofTinybar(v hedera.Tinybar) *big.Int {
	if m == tinybars {
		return big.NewInt(int64(v))
	}
	return v.Weibar()
}

var emptyBloom = hexText(make([]byte, types.BloomByteLength))

// resultOf writes a record that has an EVM result, of whatever kind of transaction it came.
func resultOf(rec *ledger.Record, block *ledger.Block, chainID *big.Int, unit money) object {
	res := rec.Result
	out := object{
		"access_list":              []any{},
		"address":                  nil,
		"amount":                   json.Number(unit.ofTinybar(res.Amount).String()),
		"block_gas_used":           block.GasUsed,
		"block_hash":               hexText(block.Hash[:]),
		"block_number":             block.Number,
		"bloom":                    bloomText(res),
		"call_result":              nil,
		"chain_id":                 quantityText(chainID),
		"contract_id":              idText(res.Target),
		"created_contract_ids":     each(res.Created, hedera.ID.String),
		"error_message":            errorMessage(rec),
		"failed_initcode":          nil,
		"from":                     nil,
		"function_parameters":      hexText(res.Input),
		"gas_consumed":             res.GasConsumed,
		"gas_limit":                res.GasLimit,
		"gas_price":                quantityText(big.NewInt(int64(res.GasPrice))),
		"gas_used":                 res.GasUsed,
		"hash":                     hexText(transactionHash(rec)),
		"max_fee_per_gas":          nil,
		"max_priority_fee_per_gas": nil,
		"nonce":                    nil,
		"r":                        nil,
		"result":                   rec.Status.String(),
		"s":                        nil,
		"status":                   "0x0",
		"timestamp":                rec.Consensus.String(),
		"to":                       nil,
		"transaction_index":        nil,
		"type":                     0,
		"v":                        nil,
	}
	if res.Address != (ledger.EVMResult{}).Address {
		out["address"] = addressText(res.Address)
	}
	if !res.From.IsZero() {
		// The long-zero form even where the sender has an alias.
		out["from"] = addressText(res.From.LongZero())
	}
	switch {
	case len(res.To) > 0:
		out["to"] = hexText(res.To)
	case res.Create && !res.Target.IsZero():
		out["to"] = addressText(res.Target.LongZero()) // which tells clients what was created
	}
	if res.HasResult {
		out["call_result"] = hexText(res.Output)
	}
	if rec.Executed() {
		out["transaction_index"] = res.Index
	}
	if hedera.Succeeded(rec.Status) {
		out["status"] = "0x1"
	} else if len(res.Input) > 0 {
		out["failed_initcode"] = hexText(res.Input)
	}
	if res.Raw != nil {
		addEthereum(out, res.Raw, unit)
	}
	return out
}

// addEthereum fills in the fields of a signed transaction.
func addEthereum(out object, raw []byte, unit money) {
	var tx types.Transaction
	if err := tx.UnmarshalBinary(raw); err != nil {
		panic(err) // the ledger has executed it
	}
	v, r, s := tx.RawSignatureValues()
	out["amount"] = json.Number(unit.ofWeibar(tx.Value()).String())
	out["chain_id"] = "0x"
	out["gas_price"], out["max_fee_per_gas"], out["max_priority_fee_per_gas"] = "0x", "0x", "0x"
	out["nonce"], out["type"] = tx.Nonce(), tx.Type()
	out["r"], out["s"], out["v"] = hexText(r.Bytes()), hexText(s.Bytes()), v.Uint64()
	if tx.ChainId().Sign() > 0 { // else it is signed for any chain
		out["chain_id"] = quantityText(tx.ChainId())
	}
	if tx.Type() == types.LegacyTxType || tx.Type() == types.AccessListTxType {
		out["gas_price"] = quantityText(unit.ofWeibar(tx.GasPrice()))
	} else {
		out["max_fee_per_gas"] = quantityText(unit.ofWeibar(tx.GasFeeCap()))
		out["max_priority_fee_per_gas"] = quantityText(unit.ofWeibar(tx.GasTipCap()))
	}
	if list := tx.SetCodeAuthorizations(); len(list) > 0 { // only where there are any
		out["authorization_list"] = each(list, func(a types.SetCodeAuthorization) object {
			return object{
				"address": addressText(a.Address), "chain_id": quantityText(a.ChainID.ToBig()), "nonce": a.Nonce,
				"r": hexText(a.R.PaddedBytes(32)), "s": hexText(a.S.PaddedBytes(32)), "y_parity": quantityText(big.NewInt(int64(a.V))),
			}
		})
	}
	out["access_list"] = each(tx.AccessList(), func(entry types.AccessTuple) object {
		return object{"address": addressText(entry.Address), "storage_keys": words(entry.StorageKeys)}
	})
}

// detailedResultOf adds logs and state changes.
func detailedResultOf(rec *ledger.Record, block *ledger.Block, chainID *big.Int, unit money) object {
	out := resultOf(rec, block, chainID, unit)
	out["logs"] = each(rec.Result.Logs, resultLogOf)
	out["state_changes"] = each(rec.Result.StateChanges, func(c ledger.StateChange) object {
		change := object{
			"address":       addressText(c.Address),
			"contract_id":   idText(c.Contract),
			"slot":          hexText(c.Slot[:]),
			"value_read":    hexText(c.Read[:]),
			"value_written": nil,
		}
		if c.Written != nil {
			change["value_written"] = hexText(c.Written[:])
		}
		return change
	})
	return out
}

func bloomText(res *ledger.EVMResult) string {
	switch {
	case res.Bloom != nil:
		return hexText(res.Bloom[:])
	case res.HasResult:
		return emptyBloom
	default:
		return "0x"
	}
}

// errorMessage is null on success and never on failure: what failed without a
// message goes by the name of its status.
func errorMessage(rec *ledger.Record) *string {
	switch {
	case hedera.Succeeded(rec.Status):
		return nil
	case rec.Result.ErrorMessage != "":
		return &rec.Result.ErrorMessage
	default:
		return ptr(rec.Status.String())
	}
}
