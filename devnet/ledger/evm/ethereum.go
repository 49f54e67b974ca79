package evm

import (
	"encoding/hex"
	"math"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/files"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// deterministicDeployer is the hash of the one keyless transaction that deploys the
// well-known CREATE2 factory. Its price of 100 gwei was signed for all chains and
// for ever; the network takes it as that many times its own price.
const deterministicDeployer = "0xeddf9e61fb9d8f5111840daef55e5fde0041f5702856532cdbb5a02998033d26"

// ethereum handles an Ethereum transaction. The order of the checks decides which
// status a transaction with several faults gets.
func (e *Engine) ethereum(h *core.Handling, body *hapi.EthereumTransactionBody) hedera.Status {
	tx, status := hydrate(h, body)
	if tx == nil {
		return status
	}
	h.Sub.Ethereum = tx
	h.Record.EthereumHash = tx.Hash()
	c := &ethereumCall{Handling: h, engine: e, tx: tx, allowance: hedera.Tinybar(body.GetMaxGasAllowance())}
	if status := c.malformed(); status != hapi.ResponseCodeEnum_SUCCESS {
		return c.refuseBare(status)
	}
	if status := c.tooLarge(); status != hapi.ResponseCodeEnum_SUCCESS {
		chargeAborted(c.Handling)
		c.refuse(status)
		c.Record.Result.From = c.Sub.Payer // such a result is the relayer's
		return status
	}
	return c.execute()
}

// hydrate returns the transaction with its call data, which may be in a file.
func hydrate(h *core.Handling, body *hapi.EthereumTransactionBody) (*eth.Tx, hedera.Status) {
	if body.GetCallData() == nil {
		if h.Sub.Ethereum == nil {
			return nil, hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION
		}
		return h.Sub.Ethereum, hapi.ResponseCodeEnum_SUCCESS
	}
	h.DataFile = hedera.IDOf(body.GetCallData(), body.GetCallData().GetFileNum())
	data, status := hexFile(h, body.GetCallData())
	if status != hapi.ResponseCodeEnum_SUCCESS {
		return nil, status
	}
	bare, ok := ParseEthereum(body.GetEthereumData())
	if !ok || bare.Type() == types.SetCodeTxType { // whose call data is never elsewhere
		return nil, hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION
	}
	raw, ok := WithCallData(bare, data)
	if !ok {
		return nil, hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION
	}
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		return nil, hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION
	}
	return tx, hapi.ResponseCodeEnum_SUCCESS
}

// hexFile reads a file that holds bytes as hexadecimal text.
func hexFile(h *core.Handling, id *hapi.FileID) ([]byte, hedera.Status) {
	f := files.File(h, id)
	switch {
	case f == nil:
		return nil, hapi.ResponseCodeEnum_INVALID_FILE_ID
	case f.Deleted:
		return nil, hapi.ResponseCodeEnum_FILE_DELETED
	case len(f.Contents) == 0:
		return nil, hapi.ResponseCodeEnum_CONTRACT_FILE_EMPTY
	}
	data, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(f.Contents)), "0x"))
	if err != nil {
		return nil, hapi.ResponseCodeEnum_ERROR_DECODING_BYTESTRING
	}
	return data, hapi.ResponseCodeEnum_SUCCESS
}

// ParseEthereum decodes the fields of a transaction. It does not look at the signature.
func ParseEthereum(raw []byte) (*types.Transaction, bool) {
	tx := new(types.Transaction)
	return tx, tx.UnmarshalBinary(raw) == nil
}

// knownType tells whether a transaction is of one of the types that the network executes.
func knownType(kind uint8, authorizations int, setCode bool) bool {
	if kind == types.SetCodeTxType {
		return setCode && authorizations > 0
	}
	return kind <= types.DynamicFeeTxType
}

// WithCallData puts the call data in its place and encodes the transaction again.
func WithCallData(tx *types.Transaction, data []byte) ([]byte, bool) {
	v, r, s := tx.RawSignatureValues()
	var fields types.TxData
	switch tx.Type() {
	case types.LegacyTxType:
		fields = &types.LegacyTx{
			Nonce: tx.Nonce(), GasPrice: tx.GasPrice(), Gas: tx.Gas(), To: tx.To(),
			Value: tx.Value(), Data: data, V: v, R: r, S: s,
		}
	case types.DynamicFeeTxType:
		fields = &types.DynamicFeeTx{
			ChainID: tx.ChainId(), Nonce: tx.Nonce(), GasTipCap: tx.GasTipCap(), GasFeeCap: tx.GasFeeCap(),
			Gas: tx.Gas(), To: tx.To(), Value: tx.Value(), Data: data, V: v, R: r, S: s,
		}
	case types.AccessListTxType:
		fields = &types.AccessListTx{
			ChainID: tx.ChainId(), Nonce: tx.Nonce(), GasPrice: tx.GasPrice(), Gas: tx.Gas(), To: tx.To(),
			Value: tx.Value(), Data: data, V: v, R: r, S: s,
		}
	}
	if len(tx.AccessList()) > 0 { // an access list and call data in a file exclude each other
		return nil, false
	}
	raw, err := types.NewTx(fields).MarshalBinary()
	return raw, err == nil
}

// ethereumCall is an Ethereum transaction while it is handled.
type ethereumCall struct {
	*core.Handling
	engine    *Engine
	tx        *eth.Tx
	allowance hedera.Tinybar // the maximum that the relayer adds for gas
	sender    *state.Party   // nil until it is known to exist
	value     hedera.Tinybar
}

const okay = hapi.ResponseCodeEnum_SUCCESS

// malformed finds what is wrong before the sender is looked at.
func (e *ethereumCall) malformed() hedera.Status {
	switch {
	case e.allowance < 0:
		return hapi.ResponseCodeEnum_NEGATIVE_ALLOWANCE_AMOUNT
	case e.tx.Protected() && e.tx.ChainID().Cmp(e.engine.chain.ChainID) != 0:
		return hapi.ResponseCodeEnum_WRONG_CHAIN_ID
	case e.tx.To() == nil && len(e.tx.Data()) == 0, !knownType(e.tx.Type(), e.tx.Authorizations(), e.engine.setCode):
		return hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION
	}
	return okay
}

func (e *ethereumCall) tooLarge() hedera.Status {
	switch {
	case e.tx.Gas() > MaxGas:
		return hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED
	case len(e.tx.Data()) > MaxCallData:
		return hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE
	}
	return okay
}

// execute runs a transaction that is well formed.
func (e *ethereumCall) execute() hedera.Status {
	sender := e.State.Get(e.tx.From())
	if !sender.Exists || sender.Contract && !e.Sub.Impersonated {
		return e.refuse(hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID)
	}
	e.sender = sender
	if core.IsHollow(sender) && !e.Sub.Impersonated {
		if status := e.completeSender(); status != okay {
			return e.refuse(status)
		}
	}
	if e.tx.Nonce() != sender.Nonce {
		chargeAborted(e.Handling)
		return e.refuse(hapi.ResponseCodeEnum_WRONG_NONCE)
	}
	fees, status := e.fees()
	if status != okay {
		e.refuse(status)
		if status == hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE {
			e.Record.Result.Index, e.Record.Result.Refused = 0, true // place finds which
		}
		return status
	}
	collector := e.State.EntityAccount(state.FeeCollector)
	relayer := e.Account(e.Sub.Payer)
	e.State.Move(relayer, collector, fees.relayer)
	e.State.Move(sender, collector, fees.sender)
	// A creation takes its address from the nonce that is still to be spent.
	if e.tx.To() != nil {
		e.State.PutNonce(sender, e.tx.Nonce()+1)
	}
	out := e.engine.run(e.State, env(e.Net, e.At), e.message())
	if e.tx.To() == nil {
		e.State.PutNonce(sender, e.tx.Nonce()+1)
	}

	refund := hedera.Tinybar(e.tx.Gas()-out.gasUsed) * e.Net.GasPrice()
	toRelayer := min(refund, fees.relayer)
	e.State.Move(collector, relayer, toRelayer)
	e.State.Move(collector, sender, refund-toRelayer)
	e.Record.Fee += hedera.Tinybar(out.gasUsed) * e.Net.GasPrice()
	return e.settle(out)
}

// completeSender gives a hollow sender the key its transaction was signed with.
func (e *ethereumCall) completeSender() hedera.Status {
	public, ok := recoverPublicKey(e.tx)
	if !ok {
		return hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION
	}
	e.Complete(e.sender, public)
	return okay
}

// recoverPublicKey returns the compressed key a transaction was signed with.
func recoverPublicKey(tx *eth.Tx) ([]byte, bool) {
	fields := tx.Fields()
	signer, err := eth.SignerOf(fields)
	if err != nil {
		return nil, false
	}
	v, r, s := fields.RawSignatureValues()
	var signature [crypto.SignatureLength]byte
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:64])
	switch {
	case tx.Type() != types.LegacyTxType:
		signature[64] = byte(v.Bit(0))
	default:
		signature[64] = 1 - byte(v.Bit(0)) // 27 and 35 are odd: parity 0
	}
	digest := signer.Hash(fields)
	public, err := crypto.SigToPub(digest[:], signature[:])
	if err != nil || crypto.PubkeyToAddress(*public) != tx.From() {
		return nil, false
	}
	return crypto.CompressPubkey(public), true
}

func (e *ethereumCall) message() message {
	to := e.tx.To()
	if to != nil {
		canonical := e.State.Canonical(*to)
		to = &canonical
	}
	return message{
		from: e.sender.Address, to: to, data: e.tx.Data(), gas: e.tx.Gas(),
		value: e.value, gasPrice: e.Net.GasPrice(), authorizations: e.tx.AuthorizationList(),
		ethereum: true, signatures: e.Sub.Signatures,
	}
}

// gasFees says who advances how much for gas.
type gasFees struct{ relayer, sender hedera.Tinybar }

// fees splits the price of the gas limit between relayer and sender and checks
// that both can pay.
func (e *ethereumCall) fees() (gasFees, hedera.Status) {
	limit, price := hedera.Tinybar(e.tx.Gas()), e.Net.GasPrice()
	offered := e.offeredPrice()
	f := gasFees{sender: limit * min(offered, price)}
	f.relayer = limit*price - f.sender
	value, ok := hedera.TinybarOf(e.tx.Value())
	if !ok || value > state.TotalSupply {
		return f, hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	}
	e.value = value
	if f.relayer > e.allowance {
		return f, hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE
	}
	relayer := e.Account(e.Sub.Payer)
	fromRelayer, fromSender := f.relayer, f.sender+value
	if relayer == e.sender {
		fromSender += fromRelayer
	}
	if relayer.Tinybar() < fromRelayer || e.sender.Tinybar() < fromSender {
		return f, hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	}
	return f, okay
}

// offeredPrice is the maximum that the sender pays for a unit of gas.
func (e *ethereumCall) offeredPrice() hedera.Tinybar {
	offered, ok := hedera.TinybarOf(e.tx.GasPrice())
	if !ok {
		return math.MaxInt64
	}
	if e.tx.Hash() == common.HexToHash(deterministicDeployer) {
		return offered * e.Net.GasPrice()
	}
	return offered
}

// chargeAborted takes the price of an empty transaction from the payer, which of an Ethereum transaction is
// the relayer.
func chargeAborted(h *core.Handling) {
	payer := h.Account(h.Sub.Payer)
	charge := min(hedera.Tinybar(txGas)*h.Net.GasPrice(), payer.Tinybar(), hedera.Hbar)
	h.State.Move(payer, h.State.EntityAccount(state.FeeCollector), charge)
	h.Record.Fee += charge
}

// result is what every outcome of an Ethereum transaction has in common.
func (e *ethereumCall) result() *history.EVMResult {
	tx := e.tx
	r := &history.EVMResult{
		Sender: tx.From(), Create: tx.To() == nil, Input: tx.Data(), GasLimit: tx.Gas(),
		GasPrice: e.Net.GasPrice(), Raw: tx.Raw(), SignerNonce: -1, Index: -1, HasResult: true,
		Authorizations: tx.AuthorizationList(),
	}
	if to := tx.To(); to != nil {
		r.To = to.Bytes()
	}
	if value, ok := hedera.TinybarOf(tx.Value()); ok {
		r.Amount = value
	}
	if e.sender != nil {
		r.From, r.Sender = hedera.Entity(e.sender.Num), e.sender.Address
		r.SignerNonce = int64(e.sender.Nonce)
	}
	return r
}

// refuseBare records a refusal without a function result.
func (e *ethereumCall) refuseBare(status hedera.Status) hedera.Status {
	e.Record.Result = e.result()
	e.Record.Result.HasResult = false
	e.Record.Result.ErrorMessage = status.String()
	return status
}

// refuse records a refusal with a function result: nothing ran.
func (e *ethereumCall) refuse(status hedera.Status) hedera.Status {
	r := e.result()
	r.ErrorMessage = hexStatus(status)
	if to := e.tx.To(); to != nil {
		if acct := e.State.Get(*to); acct.Exists {
			r.Address, r.Target = acct.Address, hedera.Entity(acct.Num)
			e.Record.ContractID = r.Target
		}
	}
	e.Record.Result = r
	return status
}

// settle records what ran.
func (e *ethereumCall) settle(out outcome) hedera.Status {
	e.Record.Result = e.result()
	record(e.Handling, e.Record.Result, out)
	return out.status
}

// refusedEthereum records an Ethereum transaction that consensus would not handle.
func refusedEthereum(h *core.Handling) {
	tx := h.Sub.Ethereum
	if tx == nil {
		tx, _ = hydrate(h, h.Sub.Body.GetEthereumTransaction()) // its call data is in a file; without it there is no record of a run
	}
	if tx != nil {
		h.Record.EthereumHash = tx.Hash()
		e := &ethereumCall{Handling: h, tx: tx}
		e.refuse(h.Record.Status)
		h.Record.Result.From = h.Sub.Payer
	}
}

func (e *Engine) pureEthereum(body *hapi.EthereumTransactionBody) hedera.Status {
	tx, ok := ParseEthereum(body.GetEthereumData())
	if !ok || !knownType(tx.Type(), len(tx.SetCodeAuthorizations()), e.setCode) {
		return hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION
	}
	if to := tx.To(); to != nil && *to == (common.Address{}) && tx.Value().Sign() > 0 {
		return hapi.ResponseCodeEnum_INVALID_SOLIDITY_ADDRESS
	}
	if tx.Gas() < neededGas(tx.Data(), tx.To() == nil, len(tx.SetCodeAuthorizations())) {
		return hapi.ResponseCodeEnum_INSUFFICIENT_GAS
	}
	if !plausibleSignature(tx) {
		return hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION
	}
	return okay
}

func plausibleSignature(tx *types.Transaction) bool {
	_, r, s := tx.RawSignatureValues()
	return r.Sign() > 0 && s.Sign() > 0 && r.BitLen() <= 256 && s.BitLen() <= 256
}
