package ethapi

import (
	"bytes"
	"context"
	"encoding/hex"
	"math"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/mirror"
)

// The gas limit that a synthetic transaction shows.
const syntheticGas = 400_000

// builder makes Ethereum's objects out of the mirror node's records. All methods
// that show a transaction, a receipt or a log make it here.
type builder struct {
	chainID *big.Int
	price   *big.Int // weibar: the network's gas price at the block
	// hiero shows some members as the TypeScript relay does, further from Ethereum; docs/METHODS.md lists each.
	hiero bool
}

// builder returns a builder for the profile.
func (a *API) builder() builder { return builder{chainID: a.chainID(), hiero: a.hiero()} }

// transaction builds a transaction from its result, with the addresses of the record. A type that Ethereum does
// not have gives nil.
func (b *builder) transaction(r *mirror.ContractResult) *eth.Transaction {
	kind := resultType(r)
	if kind > types.SetCodeTxType || kind == types.BlobTxType {
		return nil
	}
	t := &eth.Transaction{
		BlockHash: &r.BlockHash, BlockNumber: (*hexutil.Uint64)(r.BlockNumber), Index: (*hexutil.Uint64)(r.Index),
		Hash: r.Hash, Type: hexutil.Uint64(kind), ChainID: eth.Number(r.ChainID), From: r.From, To: receiver(r), Value: eth.Number(b.amount(r.Amount)),
		Input: r.Input, Gas: hexutil.Uint64(r.GasLimit), GasPrice: eth.Number(r.GasPrice), V: eth.Number(r.V), R: eth.Number(r.R), S: eth.Number(r.S),
	}
	if t.ChainID.ToInt().Sign() == 0 {
		t.ChainID, t.AnyChain = eth.Number(b.chainID), kind != types.LegacyTxType
	}
	if r.Nonce != nil {
		t.Nonce = hexutil.Uint64(*r.Nonce)
	}
	switch kind {
	case types.LegacyTxType:
		t.V = eth.Number(legacyV(r))
		return t
	case types.DynamicFeeTxType, types.SetCodeTxType:
		t.MaxFee, t.MaxTip = eth.Number(r.MaxFee), eth.Number(r.MaxTip)
		if !b.hiero { // the record names no price, which the TypeScript relay shows as 0
			t.GasPrice = eth.Number(b.paid(r))
		}
	}
	t.AccessList, t.YParity = eth.Accesses(r.AccessList), t.V
	if kind == types.SetCodeTxType {
		t.Authorizations = append([]types.SetCodeAuthorization{}, r.Authorizations...)
	}
	return t
}

// resultType is the transaction's type. What was no Ethereum transaction counts as a legacy one.
func resultType(r *mirror.ContractResult) uint8 {
	if r.Type == nil {
		return types.LegacyTxType
	}
	return uint8(min(*r.Type, 0xff))
}

// receiver is the transaction's receiver. A creation has none, though its record names the contract.
func receiver(r *mirror.ContractResult) *common.Address {
	if r.CreatedContract() {
		return nil
	}
	return r.To
}

// legacyV returns V as it was signed. Some records hold the recovery id alone.
func legacyV(r *mirror.ContractResult) *big.Int {
	if r.V == nil || r.R == nil || r.V.BitLen() > 1 {
		return r.V
	}
	if r.ChainID == nil || r.ChainID.Sign() == 0 {
		return new(big.Int).Add(r.V, big.NewInt(27))
	}
	v := new(big.Int).Lsh(r.ChainID, 1)
	return v.Add(v, r.V).Add(v, big.NewInt(35))
}

var lower64 = new(big.Int).SetUint64(math.MaxUint64)

// amount shows a negative amount, which a native call that the network refused may have, as nothing: that is
// what moved. The TypeScript relay shows the lower 64 bits in two's complement.
func (b *builder) amount(n *big.Int) *big.Int {
	switch {
	case n == nil || n.Sign() >= 0:
		return n
	case b.hiero:
		return new(big.Int).And(n, lower64)
	}
	return new(big.Int)
}

// paid returns the cost of a unit of gas in weibar: the network's price, or less if the offer was lower and
// somebody else paid the rest.
func (b *builder) paid(r *mirror.ContractResult) *big.Int {
	offered := r.GasPrice
	if kind := resultType(r); kind == types.DynamicFeeTxType || kind == types.SetCodeTxType {
		offered = r.MaxFee
	}
	switch {
	case b.price == nil || b.price.Sign() == 0:
		return offered
	case offered == nil || r.Type == nil || offered.Cmp(b.price) > 0:
		return b.price
	}
	return offered
}

// receipt builds a receipt from a complete result and its logs, with the addresses of the record.
func (b *builder) receipt(r *mirror.ContractResult, logs []*eth.Log, cumulative uint64) *eth.Receipt {
	receipt := &eth.Receipt{
		BlockHash: r.BlockHash, BlockNumber: hexutil.Uint64(*r.BlockNumber), TxHash: r.Hash, Index: hexutil.Uint64(*r.Index), Type: hexutil.Uint64(resultType(r)),
		From: r.From, To: receiver(r), ContractAddress: b.contractAddress(r), Status: hexutil.Uint64(r.Status),
		GasUsed: hexutil.Uint64(r.GasUsed), CumulativeGasUsed: hexutil.Uint64(cumulative), EffectiveGasPrice: eth.Number(b.paid(r)),
		Logs: append([]*eth.Log{}, logs...), Root: b.root(),
	}
	if len(r.Bloom) == types.BloomByteLength {
		receipt.Bloom = types.BytesToBloom(r.Bloom)
	} else {
		receipt.Bloom = types.CreateBloom(receipt.Consensus())
	}
	if r.ErrorMessage != "" {
		receipt.RevertReason = errorBytes(r.ErrorMessage)
	}
	return receipt
}

// errorBytes returns the bytes of an error message, which is hex or text.
func errorBytes(message string) []byte {
	if digits, ok := strings.CutPrefix(message, "0x"); ok {
		if len(digits)%2 == 1 {
			digits = "0" + digits
		}
		if raw, err := hex.DecodeString(digits); err == nil {
			return raw
		}
	}
	return []byte(message)
}

// contractAddress is the created contract. In profile hiero it is the record's address, which is the receiver's
// if nothing was created.
func (b *builder) contractAddress(r *mirror.ContractResult) *common.Address {
	if created := createdAddress(r); created != nil || !b.hiero {
		return created
	}
	return r.Address
}

// createdAddress returns the contract or token that a transaction created. A token's
// address is what the token service returned.
func createdAddress(r *mirror.ContractResult) *common.Address {
	if r.CreatedContract() {
		return r.Address
	}
	if r.To == nil || *r.To != hedera.Entity(tokenService).LongZero() || !createsToken(r.Input) || len(r.Output) < 32 || r.Status == 0 {
		return nil
	}
	address := common.BytesToAddress(r.Output)
	return &address
}

// createsToken tells whether call data is for one of the token service's functions
// that create a token.
func createsToken(input []byte) bool {
	if len(input) < 4 {
		return false
	}
	for _, selector := range [...][4]byte{
		{0x9d, 0xc7, 0x11, 0xe0},
		{0x9c, 0x89, 0xbb, 0x35},
		{0xea, 0x83, 0xf2, 0x93},
		{0x5b, 0xc7, 0xc0, 0xe6},
		{0x45, 0x73, 0x39, 0x69},
		{0xab, 0xb5, 0x4e, 0xb5},
		{0x27, 0xd9, 0x7b, 0xe3},
		{0xc2, 0x3b, 0xae, 0xb6},
		{0x0f, 0xb6, 0x5b, 0xf3},
		{0xef, 0x2d, 0x10, 0x98},
		{0xb9, 0x37, 0x58, 0x1a},
		{0x2a, 0xf0, 0xc5, 0x9a},
	} {
		if bytes.Equal(selector[:], input[:4]) {
			return true
		}
	}
	return false
}

// syntheticTransaction builds the transaction that is shown for events without a contract call, from the first of
// them.
func (b *builder) syntheticTransaction(l *eth.Log) *eth.Transaction {
	t := &eth.Transaction{
		BlockHash: &l.BlockHash, BlockNumber: &l.BlockNumber, Index: &l.TxIndex, Hash: l.TxHash,
		ChainID: eth.Number(b.chainID), From: l.Address, To: &l.Address, Gas: syntheticGas,
		Value: eth.Number(nil), GasPrice: eth.Number(nil), V: eth.Number(nil), R: eth.Number(nil), S: eth.Number(nil),
	}
	if b.hiero { // the TypeScript relay has these instead of nothing
		t.GasPrice, t.Input = eth.Number(big.NewInt(0xfe)), make([]byte, 8)
	}
	return t
}

// root is what receipts of the TypeScript relay have as their state root: that of an empty state.
func (b *builder) root() *common.Hash {
	if !b.hiero {
		return nil
	}
	return &types.EmptyRootHash
}

// syntheticReceipt builds the receipt of a synthetic transaction. It used no gas, so
// that the block's sum is that of the transaction before it.
func (b *builder) syntheticReceipt(logs []*eth.Log, cumulative uint64) *eth.Receipt {
	first := logs[0]
	receipt := &eth.Receipt{
		BlockHash: first.BlockHash, BlockNumber: first.BlockNumber, TxHash: first.TxHash, Index: first.TxIndex,
		From: first.Address, To: &first.Address, Status: 1, CumulativeGasUsed: hexutil.Uint64(cumulative), EffectiveGasPrice: eth.Number(b.price),
		Logs: logs, Root: b.root(),
	}
	receipt.Bloom = types.CreateBloom(receipt.Consensus())
	if b.hiero {
		receipt.ContractAddress = &first.Address
	}
	return receipt
}

// buildLogs returns the logs of a list. They still belong to the mirror client.
func buildLogs(logs []*mirror.Log) []*eth.Log {
	list := make([]*eth.Log, len(logs))
	for i, l := range logs {
		list[i] = &l.Log
	}
	return list
}

// resultLogs builds the logs that a single result holds.
func resultLogs(r *mirror.ContractResult) []*eth.Log {
	logs := make([]*eth.Log, len(r.Logs))
	for i, l := range r.Logs {
		logs[i] = &eth.Log{
			Address: l.Address, Topics: l.Topics, Data: l.Data, Index: l.Index,
			BlockHash: r.BlockHash, BlockNumber: hexutil.Uint64(*r.BlockNumber), BlockTime: hexutil.Uint64(r.Timestamp.Seconds),
			TxHash: r.Hash, TxIndex: hexutil.Uint64(*r.Index),
		}
	}
	return logs
}

// aliases replaces long-zero addresses by aliases. Each address is looked up once.
func (a *API) aliases(ctx context.Context, addresses ...*common.Address) error {
	var distinct []common.Address
	alias := make(map[common.Address]common.Address)
	for _, address := range addresses {
		if _, known := alias[*address]; known {
			continue
		}
		if _, numbered := hedera.FromLongZero(*address); !numbered {
			continue
		}
		alias[*address] = *address
		distinct = append(distinct, *address)
	}
	if len(distinct) == 0 {
		return nil
	}
	resolved := make([]common.Address, len(distinct))
	err := each(ctx, a.cfg.Concurrency, distinct, func(ctx context.Context, i int, address common.Address) (err error) {
		resolved[i], err = a.mirror.Alias(ctx, address)
		return err
	})
	if err != nil {
		return err
	}
	for i, address := range distinct {
		alias[address] = resolved[i]
	}
	for _, address := range addresses {
		if known, ok := alias[*address]; ok {
			*address = known
		}
	}
	return nil
}

// learnSenders learns the aliases of senders whose records name them by number. The signature gives the alias by
// which the network found the account, so this costs less than a request for each. A record that does not hold
// the transaction as it was signed tells nothing.
func (a *API) learnSenders(transactions ...*eth.Transaction) {
	for _, t := range transactions {
		if t == nil || t.R.ToInt().Sign() == 0 {
			continue
		}
		if id, numbered := hedera.FromLongZero(t.From); numbered {
			a.mirror.LearnAlias(id, func() (common.Address, bool) { return signer(t) })
		}
	}
}

// signer recovers who signed a transaction, if it is whole.
func signer(t *eth.Transaction) (common.Address, bool) {
	signed, err := t.Signed()
	if err != nil || signed.Hash() != t.Hash {
		return common.Address{}, false
	}
	rules, err := eth.SignerOf(signed)
	if err != nil {
		return common.Address{}, false
	}
	sender, err := types.Sender(rules, signed)
	return sender, err == nil
}

// learnSenders is API.learnSenders for everything in the block.
func (c *contents) learnSenders(a *API) {
	for _, e := range c.entries {
		if e.synthetic == nil {
			a.learnSenders(e.transaction)
		}
	}
}
