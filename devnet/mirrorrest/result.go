package mirrorrest

import (
	"encoding/json"
	"math/big"

	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

// A resultJSON is the result of a contract call or creation, of whatever kind of
// transaction it came.
type resultJSON struct {
	AccessList           []accessJSON        `json:"access_list"`
	Address              *string             `json:"address"`
	Amount               json.Number         `json:"amount"`
	AuthorizationList    []authorizationJSON `json:"authorization_list,omitempty"` // only where there is one
	BlockGasUsed         uint64              `json:"block_gas_used"`
	BlockHash            string              `json:"block_hash"`
	BlockNumber          int64               `json:"block_number"`
	Bloom                string              `json:"bloom"`
	CallResult           *string             `json:"call_result"`
	ChainID              string              `json:"chain_id"`
	ContractID           *string             `json:"contract_id"`
	CreatedContractIDs   []string            `json:"created_contract_ids"`
	ErrorMessage         *string             `json:"error_message"`
	FailedInitcode       *string             `json:"failed_initcode"`
	From                 *string             `json:"from"`
	FunctionParameters   string              `json:"function_parameters"`
	GasConsumed          uint64              `json:"gas_consumed"`
	GasLimit             uint64              `json:"gas_limit"`
	GasPrice             string              `json:"gas_price"`
	GasUsed              uint64              `json:"gas_used"`
	Hash                 string              `json:"hash"`
	MaxFeePerGas         *string             `json:"max_fee_per_gas"`
	MaxPriorityFeePerGas *string             `json:"max_priority_fee_per_gas"`
	Nonce                *uint64             `json:"nonce"`
	R                    *string             `json:"r"`
	Result               string              `json:"result"`
	S                    *string             `json:"s"`
	Status               string              `json:"status"`
	Timestamp            string              `json:"timestamp"`
	To                   *string             `json:"to"`
	TransactionIndex     *int                `json:"transaction_index"`
	Type                 uint8               `json:"type"`
	V                    *uint64             `json:"v"`
}

// A detailedResultJSON is a result with what only the single-result endpoints tell.
type detailedResultJSON struct {
	resultJSON
	Logs         []resultLogJSON   `json:"logs"`
	StateChanges []stateChangeJSON `json:"state_changes"`
}

// An authorizationJSON is an entry of a type 4 transaction.
type authorizationJSON struct {
	Address string `json:"address"`
	ChainID string `json:"chain_id"`
	Nonce   uint64 `json:"nonce"`
	R       string `json:"r"`
	S       string `json:"s"`
	YParity string `json:"y_parity"`
}

type accessJSON struct {
	Address     string   `json:"address"`
	StorageKeys []string `json:"storage_keys"`
}

type stateChangeJSON struct {
	Address      string  `json:"address"`
	ContractID   *string `json:"contract_id"`
	Slot         string  `json:"slot"`
	ValueRead    string  `json:"value_read"`
	ValueWritten *string `json:"value_written"`
}

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

// resultOf writes a record that has an EVM result.
func resultOf(rec *ledger.Record, block *ledger.Block, chainID *big.Int, unit money) (resultJSON, error) {
	res := rec.Result
	out := resultJSON{
		AccessList:         []accessJSON{},
		Amount:             json.Number(unit.ofTinybar(res.Amount).String()),
		BlockGasUsed:       block.GasUsed,
		BlockHash:          hexText(block.Hash[:]),
		BlockNumber:        block.Number,
		Bloom:              bloomText(res),
		ContractID:         idText(res.Target),
		CreatedContractIDs: idTexts(res.Created),
		ErrorMessage:       errorMessage(rec),
		FunctionParameters: hexText(res.Input),
		GasConsumed:        res.GasConsumed,
		GasLimit:           res.GasLimit,
		GasUsed:            res.GasUsed,
		Result:             rec.Status.String(),
		Status:             "0x0",
		Timestamp:          rec.Consensus.String(),
	}
	if res.Address != (ledger.EVMResult{}).Address {
		out.Address = ptr(addressText(res.Address))
	}
	if !res.From.IsZero() {
		// The long-zero form even where the sender has an alias.
		out.From = ptr(addressText(res.From.LongZero()))
	}
	switch {
	case len(res.To) > 0:
		out.To = ptr(hexText(res.To))
	case res.Create && !res.Target.IsZero():
		out.To = ptr(addressText(res.Target.LongZero())) // which tells clients what was created
	}
	if res.HasResult {
		out.CallResult = ptr(hexText(res.Output))
	}
	if rec.Executed() {
		out.TransactionIndex = ptr(res.Index)
	}
	if hedera.Succeeded(rec.Status) {
		out.Status = "0x1"
	} else if len(res.Input) > 0 {
		out.FailedInitcode = ptr(hexText(res.Input))
	}
	if res.Raw == nil {
		out.addCall(rec, chainID)
		return out, nil
	}
	return out, out.addEthereum(rec, unit)
}

// addCall fills in what a native call has in place of a signed Ethereum transaction.
func (out *resultJSON) addCall(rec *ledger.Record, chainID *big.Int) {
	out.ChainID = quantityText(chainID)
	out.Hash = hexText(transactionHash(rec))
	out.GasPrice = quantityText(big.NewInt(int64(rec.Result.GasPrice)))
}

// addEthereum fills in the fields of the signed transaction.
func (out *resultJSON) addEthereum(rec *ledger.Record, unit money) error {
	var tx types.Transaction
	if err := tx.UnmarshalBinary(rec.Result.Raw); err != nil {
		return err
	}
	v, r, s := tx.RawSignatureValues()
	out.Amount = json.Number(unit.ofWeibar(tx.Value()).String())
	out.ChainID = "0x"
	out.GasPrice, out.MaxFeePerGas, out.MaxPriorityFeePerGas = "0x", ptr("0x"), ptr("0x")
	out.Hash = hexText(transactionHash(rec))
	out.Nonce = ptr(tx.Nonce())
	out.R, out.S, out.V = ptr(hexText(r.Bytes())), ptr(hexText(s.Bytes())), ptr(v.Uint64())
	out.Type = tx.Type()
	if tx.ChainId().Sign() > 0 { // else it is signed for any chain
		out.ChainID = quantityText(tx.ChainId())
	}
	if tx.Type() == types.LegacyTxType || tx.Type() == types.AccessListTxType {
		out.GasPrice = quantityText(unit.ofWeibar(tx.GasPrice()))
	} else {
		out.MaxFeePerGas = ptr(quantityText(unit.ofWeibar(tx.GasFeeCap())))
		out.MaxPriorityFeePerGas = ptr(quantityText(unit.ofWeibar(tx.GasTipCap())))
	}
	for _, a := range tx.SetCodeAuthorizations() {
		out.AuthorizationList = append(out.AuthorizationList, authorizationJSON{
			Address: addressText(a.Address), ChainID: quantityText(a.ChainID.ToBig()), Nonce: a.Nonce,
			R: hexText(a.R.PaddedBytes(32)), S: hexText(a.S.PaddedBytes(32)), YParity: quantityText(big.NewInt(int64(a.V))),
		})
	}
	for _, entry := range tx.AccessList() {
		access := accessJSON{Address: addressText(entry.Address), StorageKeys: []string{}}
		for _, slot := range entry.StorageKeys {
			access.StorageKeys = append(access.StorageKeys, hexText(slot[:]))
		}
		out.AccessList = append(out.AccessList, access)
	}
	return nil
}

// detailedResultOf adds logs and state changes.
func detailedResultOf(rec *ledger.Record, block *ledger.Block, chainID *big.Int, unit money) (detailedResultJSON, error) {
	summary, err := resultOf(rec, block, chainID, unit)
	if err != nil {
		return detailedResultJSON{}, err
	}
	out := detailedResultJSON{resultJSON: summary, Logs: []resultLogJSON{}, StateChanges: []stateChangeJSON{}}
	for _, l := range rec.Result.Logs {
		out.Logs = append(out.Logs, resultLogOf(l))
	}
	for _, c := range rec.Result.StateChanges {
		change := stateChangeJSON{
			Address:    addressText(c.Address),
			ContractID: idText(c.Contract),
			Slot:       hexText(c.Slot[:]),
			ValueRead:  hexText(c.Read[:]),
		}
		if c.Written != nil {
			change.ValueWritten = ptr(hexText(c.Written[:]))
		}
		out.StateChanges = append(out.StateChanges, change)
	}
	return out, nil
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

func idTexts(ids []hedera.ID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return out
}
