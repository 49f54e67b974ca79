package ethapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/tracers/logger"
	"github.com/holiman/uint256"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/evm"
	"lockstep/mirror"
	"lockstep/rpc"
)

// call is eth_call.
func (a *API) call(ctx context.Context, p *rpc.Params) (any, error) {
	if overridesBlock(p) {
		return a.simulateCall(ctx, p, argumentAt(p, overridesParam), argumentAt(p, blockOverridesParam), (*simulation).call)
	}
	q, err := a.callRequest(ctx, p)
	if err != nil {
		return nil, err
	}
	q.Gas = min(q.Gas, a.deps.MaxCallGas)
	output, err := a.mirror.Call(ctx, q)
	if err != nil {
		return nil, a.callError(err)
	}
	return hexutil.Bytes(output), nil
}

// estimateGas is eth_estimateGas. Clients that know the limits of Ethereum's blocks offer more gas than a call
// may have. Ethereum's nodes then use their own limit; with the TypeScript relay the mirror node refuses the call.
func (a *API) estimateGas(ctx context.Context, p *rpc.Params) (any, error) {
	if overridesBlock(p) {
		return a.simulateCall(ctx, p, argumentAt(p, overridesParam), argumentAt(p, blockOverridesParam), (*simulation).estimate)
	}
	q, err := a.callRequest(ctx, p)
	if err != nil {
		return nil, err
	}
	if !a.hiero() {
		q.Gas = min(q.Gas, a.deps.MaxCallGas)
	}
	gas, err := a.estimate(ctx, q)
	if err != nil {
		return nil, err
	}
	return (*hexutil.Big)(gas), nil
}

// estimate asks the mirror node for the gas that a call needs. The mirror node gets authorizations but does not
// count them, so their gas is added. If a mirror node did count them, the estimate would be too high, which does
// less harm than too low.
func (a *API) estimate(ctx context.Context, q mirror.CallRequest) (*big.Int, error) {
	q.Estimate = true
	output, err := a.mirror.Call(ctx, q)
	if err != nil {
		return nil, a.callError(err)
	}
	if len(output) == 0 {
		return nil, eth.ErrInternal("Fail to retrieve gas estimate")
	}
	gas := new(big.Int).SetBytes(output)
	for range jsonx.Value(q.Authorizations).Elements() {
		gas.Add(gas, big.NewInt(eth.AuthorizationGas))
	}
	return gas, nil
}

// callRequest reads the transaction object, the block and the state overrides.
func (a *API) callRequest(ctx context.Context, p *rpc.Params) (q mirror.CallRequest, err error) {
	ref, err := blockRef(p.At(1))
	if err != nil {
		return q, err
	}
	q.Block = ref.String()
	tx := p.At(0)
	if !a.hiero() { // the mirror node does not look at them
		if err := verifyFees(tx.Field("gasPrice").Big(), tx.Field("maxFeePerGas").Big(), tx.Field("maxPriorityFeePerGas").Big()); err != nil {
			return q, err
		}
	}
	if from := tx.Field("from"); from.Given() {
		address := addressOf(from)
		q.From = &address
	}
	if to := tx.Field("to"); to.Given() {
		address := addressOf(to)
		q.To = &address
	}
	// input is the newer name and wins.
	if q.Data = tx.Field("input").Bytes(); len(q.Data) == 0 {
		q.Data = tx.Field("data").Bytes()
	}
	if q.Gas, err = gasField(tx.Field("gas")); err != nil {
		return q, err
	}
	if price := tx.Field("gasPrice"); price.Given() {
		q.GasPrice = price.Big()
	}
	if q.Value, err = valueField(tx.Field("value")); err != nil {
		return q, err
	}
	if q.From == nil && q.Value > 0 {
		q.From = a.deps.Operator
	}
	q.AccessList = rawField(tx.Field("accessList"))
	q.Authorizations = rawField(tx.Field("authorizationList"))
	holding, overrides := capacity.FromContext(ctx), p.At(overridesParam)
	if err := holding.Take(copiesOfData * (2*len(q.Data) + len(q.AccessList) + len(q.Authorizations))); err != nil {
		return q, err
	}
	err = a.withPermit(ctx, overrides, func() (err error) { q.StateOverrides, err = stateOverrides(holding, overrides); return err })
	return q, err
}

// gasField reads a gas limit; absent or 0 means no limit.
func gasField(v jsonx.Value) (uint64, error) {
	n := v.Big()
	switch {
	case n == nil:
		return 0, nil
	case !n.IsUint64():
		return 0, eth.ErrInvalidArguments("gas %s does not fit 64 bits", v.Text())
	}
	return n.Uint64(), nil
}

// valueField reads an amount of weibar. An amount below a tinybar counts as one, so that the simulation sends
// something, too.
func valueField(v jsonx.Value) (hedera.Tinybar, error) {
	n := v.Big()
	if n == nil || n.Sign() == 0 {
		return 0, nil
	}
	tinybars, ok := hedera.TinybarOf(n)
	if !ok {
		return 0, eth.ErrInvalidArguments("value %s is more than there is", v.Text())
	}
	return max(tinybars, 1), nil
}

func rawField(v jsonx.Value) json.RawMessage {
	if !v.Given() {
		return nil
	}
	return json.RawMessage(v)
}

// Calls in a block that differs from the network's: the mirror node cannot run those.

// blockOverridesParam is the position of the block's overrides among the parameters.
const blockOverridesParam = 3

// overridesBlock tells whether the block is changed. With an object without values it stays, and the mirror node
// runs the call, since that can run more.
func overridesBlock(p *rpc.Params) bool {
	for _, value := range p.At(blockOverridesParam).Fields() {
		if !value.Null() {
			return true
		}
	}
	return false
}

// call runs a message for its output.
func (s *simulation) call(block evm.Block, m evm.Message) (any, error) {
	result, err := s.state.Run(s.api.deps.ChainID, block, m, nil)
	if err != nil {
		return nil, err
	}
	if result.Err != nil {
		return nil, failure(result)
	}
	return hexutil.Bytes(result.Output), nil
}

// estimate looks for a gas limit that is enough, and less than a sixty-fourth more than needed. Gas costs nothing
// meanwhile, because the sender's balance says nothing of the message's need.
func (s *simulation) estimate(block evm.Block, m evm.Message) (any, error) {
	const precision = 64
	m.Charge = false
	full, err := s.state.Try(s.api.deps.ChainID, block, m)
	if err != nil {
		return nil, err
	}
	if full.Err != nil {
		return nil, failure(full)
	}
	enough, short := m.Gas, full.MaxGasUsed-1
	// Most messages need no more than they used. Others read the gas that is left, or keep a part of it back at
	// each call.
	for m.Gas = full.MaxGasUsed; enough-short > enough/precision; m.Gas = short + min((enough-short)/2, short) {
		result, err := s.state.Try(s.api.deps.ChainID, block, m)
		if err != nil {
			return nil, err
		}
		if result.Err == nil {
			enough = m.Gas
		} else {
			short = m.Gas
		}
	}
	return hexutil.Uint64(enough), nil
}

// failure is the reason why a message that ran here failed.
func failure(r *evm.Result) *eth.Error {
	switch {
	case r.Reverted():
		return revertError(r.Output)
	case r.OutOfGas():
		return eth.ErrSimulationGas(r.Err.Error())
	}
	return eth.ErrSimulation(r.Err.Error())
}

func revertError(output []byte) *eth.Error {
	reason, _ := revertReason(output)
	return eth.ErrReverted(reason, hexutil.Encode(output))
}

// txArgs is a transaction object of a client: nil members were left out.
type txArgs struct {
	from, to           *common.Address
	gas, nonce         *uint64
	price, maxFee, tip *big.Int // weibar
	value              *big.Int // weibar
	chainID            *big.Int
	data               []byte
	accessList         types.AccessList             // nil: none
	authorizations     []types.SetCodeAuthorization // nil: none
}

// verifyFees refuses fees that contradict each other, as go-ethereum does; nil ones were left out.
func verifyFees(price, maxFee, tip *big.Int) error {
	switch {
	case price != nil && (maxFee != nil || tip != nil):
		return eth.ErrInvalidArguments("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified")
	case maxFee != nil && tip != nil && maxFee.Cmp(tip) < 0:
		return eth.ErrInvalidArguments("maxFeePerGas (%v) < maxPriorityFeePerGas (%v)", maxFee, tip)
	}
	return nil
}

// readTxArgs reads a transaction object that its rule has accepted.
func readTxArgs(v jsonx.Value) (t txArgs, err error) {
	for _, name := range []string{"blobs", "blobVersionedHashes", "maxFeePerBlobGas"} {
		if v.Field(name).Given() {
			return t, eth.ErrTransactionType(types.BlobTxType)
		}
	}
	t.from, t.to = addressField(v.Field("from")), addressField(v.Field("to"))
	t.price, t.maxFee, t.tip = v.Field("gasPrice").Big(), v.Field("maxFeePerGas").Big(), v.Field("maxPriorityFeePerGas").Big()
	t.value, t.chainID = v.Field("value").Big(), v.Field("chainId").Big()
	if t.gas, err = uintField(v, "gas"); err != nil {
		return t, err
	}
	if t.nonce, err = uintField(v, "nonce"); err != nil {
		return t, err
	}
	if t.data, err = dataField(v); err != nil {
		return t, err
	}
	for _, n := range []*big.Int{t.price, t.maxFee, t.tip, t.value, t.chainID} {
		if n != nil && n.BitLen() > 256 {
			return t, eth.ErrInvalidArguments("a number of more than 256 bits")
		}
	}
	if err := verifyFees(t.price, t.maxFee, t.tip); err != nil {
		return t, err
	}
	if t.accessList, err = accessListField(v.Field("accessList")); err != nil {
		return t, err
	}
	t.authorizations = authorizationsField(v.Field("authorizationList"))
	return t, nil
}

func addressField(v jsonx.Value) *common.Address {
	if !v.Given() {
		return nil
	}
	address := addressOf(v)
	return &address
}

// uintField reads a number of up to 64 bits; nil if it is absent.
func uintField(object jsonx.Value, name string) (*uint64, error) {
	v := object.Field(name)
	if !v.Given() {
		return nil, nil
	}
	n := v.Big()
	if n == nil || !n.IsUint64() {
		return nil, eth.ErrInvalidArguments("%s %s does not fit 64 bits", name, v.Text())
	}
	u := n.Uint64()
	return &u, nil
}

// dataField reads the call data, which has two names; input is the newer one.
func dataField(v jsonx.Value) ([]byte, error) {
	input, data := v.Field("input"), v.Field("data")
	if input.Given() && data.Given() && !bytes.Equal(input.Bytes(), data.Bytes()) {
		return nil, eth.ErrInvalidArguments(`both "data" and "input" are set and not equal; use "input"`)
	}
	if input.Given() {
		return input.Bytes(), nil
	}
	return data.Bytes(), nil
}

func accessListField(v jsonx.Value) (types.AccessList, error) {
	if !v.Given() {
		return nil, nil
	}
	list := types.AccessList{}
	for entry := range v.Elements() {
		address := entry.Field("address")
		if !AddressRule().Matches(address) {
			return nil, eth.ErrInvalidParam(0, "'accessList': %s", AddressRule().Phrase)
		}
		tuple := types.AccessTuple{Address: addressOf(address), StorageKeys: []common.Hash{}}
		for key := range entry.Field("storageKeys").Elements() {
			if !wordRule().Matches(key) {
				return nil, eth.ErrInvalidParam(0, "'accessList': %s", wordRule().Phrase)
			}
			tuple.StorageKeys = append(tuple.StorageKeys, wordOf(key))
		}
		list = append(list, tuple)
	}
	return list, nil
}

// authorizationsField reads signed authorizations that their rule has accepted.
func authorizationsField(v jsonx.Value) (list []types.SetCodeAuthorization) {
	for entry := range v.Elements() {
		parity, _ := entry.Field("yParity").Uint64()
		nonce, _ := entry.Field("nonce").Uint64()
		list = append(list, types.SetCodeAuthorization{
			ChainID: wordField(entry.Field("chainId")), Address: addressOf(entry.Field("address")), Nonce: nonce,
			V: uint8(parity), R: wordField(entry.Field("r")), S: wordField(entry.Field("s")),
		})
	}
	return list
}

func wordField(v jsonx.Value) (word uint256.Int) {
	if n := v.Big(); n != nil {
		word.SetFromBig(n)
	}
	return word
}

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

// accessListResult is the answer of eth_createAccessList.
type accessListResult struct {
	AccessList types.AccessList `json:"accessList"`
	Error      string           `json:"error,omitempty"` // why the transaction fails
	GasUsed    hexutil.Uint64   `json:"gasUsed"`
}

// createAccessList is eth_createAccessList: what a transaction uses besides the sender, the receiver and the
// EVM's own contracts. On this network an access list changes neither prices nor the execution, so one run is
// enough.
func (a *API) createAccessList(ctx context.Context, p *rpc.Params) (any, error) {
	given, err := accessListField(p.At(0).Field("accessList"))
	if err != nil {
		return nil, err
	}
	return a.simulateCall(ctx, p, argumentAt(p, overridesParam), argument{}, func(s *simulation, block evm.Block, message evm.Message) (any, error) {
		exclude := map[common.Address]struct{}{message.From: {}, s.receiver(&message): {}}
		for _, address := range evm.Precompiles() {
			exclude[address] = struct{}{}
		}
		tracer := logger.NewAccessListTracer(given, exclude)
		result, err := s.state.Run(a.deps.ChainID, block, message, tracer.Hooks())
		if err != nil {
			return nil, err
		}
		answer := accessListResult{AccessList: tracer.AccessList(), GasUsed: hexutil.Uint64(result.GasUsed)}
		if result.Err != nil {
			answer.Error = result.Err.Error()
		}
		return answer, nil
	})
}

// filledTransaction is the answer of eth_fillTransaction: the transaction without a
// signature, encoded and as an object. Its shape is go-ethereum's.
type filledTransaction struct {
	Raw hexutil.Bytes      `json:"raw"`
	Tx  *types.Transaction `json:"tx"`
}

// fillTransaction is eth_fillTransaction: it fills in what the client left out of a transaction, except the
// signature.
func (a *API) fillTransaction(ctx context.Context, p *rpc.Params) (any, error) {
	args, err := readTxArgs(p.At(0))
	if err != nil {
		return nil, err
	}
	if err := a.fillable(&args); err != nil {
		return nil, err
	}
	t, ctx := parallel(ctx, 3)
	t.run(func() error { return a.fillNonce(ctx, &args) })
	t.run(func() error { return a.fillGas(ctx, &args, p) })
	t.run(func() error { return a.fillFees(ctx, &args) })
	if err := t.wait(); err != nil {
		return nil, err
	}
	switch {
	case args.price != nil:
	case args.maxFee.BitLen() > 256:
		return nil, eth.ErrInvalidArguments("maxPriorityFeePerGas %v is too high", args.tip)
	case args.maxFee.Cmp(args.tip) < 0:
		return nil, eth.ErrInvalidArguments("maxFeePerGas (%v) < maxPriorityFeePerGas (%v)", args.maxFee, args.tip)
	}
	tx := types.NewTx(args.unsigned(a.chainID()))
	raw, err := tx.MarshalBinary()
	if err != nil {
		return nil, eth.ErrInvalidArguments("%s", err)
	}
	return filledTransaction{raw, tx}, nil
}

// fillable refuses a transaction that no value for the missing parts can make valid.
func (a *API) fillable(t *txArgs) error {
	zero := func(n *big.Int) bool { return n != nil && n.Sign() == 0 }
	switch {
	case t.to == nil && len(t.data) == 0:
		return eth.ErrInvalidArguments("contract creation without any data provided")
	case t.to == nil && t.authorizations != nil:
		return eth.ErrInvalidArguments(`authorizationList provided for contract creation, but "to" field is missing`)
	case t.price != nil && t.authorizations != nil:
		return eth.ErrInvalidArguments("both gasPrice and authorizationList specified")
	case zero(t.price):
		return eth.ErrInvalidArguments("gasPrice must be non-zero")
	case zero(t.maxFee):
		return eth.ErrInvalidArguments("maxFeePerGas must be non-zero")
	case t.chainID != nil && t.chainID.Cmp(a.chainID()) != 0:
		return eth.ErrChainID(t.chainID, a.deps.ChainID)
	}
	return nil
}

func (a *API) fillNonce(ctx context.Context, t *txArgs) error {
	if t.nonce != nil {
		return nil
	}
	nonce := uint64(0)
	if t.from != nil {
		var err error
		if nonce, err = a.pendingNonce(ctx, *t.from); err != nil {
			return err
		}
	}
	t.nonce = &nonce
	return nil
}

// fillGas asks for an estimate of the call that p describes.
func (a *API) fillGas(ctx context.Context, t *txArgs, p *rpc.Params) error {
	if t.gas != nil {
		return nil
	}
	q := mirror.CallRequest{
		Block: eth.BlockRef{}.String(), Estimate: true, From: t.from, To: t.to, Data: t.data,
		AccessList: rawField(p.At(0).Field("accessList")), Authorizations: rawField(p.At(0).Field("authorizationList")),
	}
	if t.value != nil && t.value.Sign() > 0 {
		tinybars, ok := hedera.TinybarOf(t.value)
		if !ok {
			return eth.ErrInvalidArguments("value %v is more than there is", t.value)
		}
		q.Value = max(tinybars, 1)
	}
	if q.From == nil && q.Value > 0 {
		q.From = a.deps.Operator
	}
	gas, err := a.estimate(ctx, q)
	if err != nil {
		return err
	}
	if !gas.IsUint64() {
		return eth.ErrInternal("Fail to retrieve gas estimate")
	}
	n := gas.Uint64()
	t.gas = &n
	return nil
}

// fillFees offers a fifth more than the present price: the price follows the exchange rate, and an offer above it
// is not charged.
func (a *API) fillFees(ctx context.Context, t *txArgs) error {
	if t.price != nil {
		return nil
	}
	t.tip = cmp.Or(t.tip, new(big.Int))
	if t.maxFee != nil {
		return nil
	}
	price, err := a.currentPrice(ctx)
	if err != nil {
		return err
	}
	tinybar := big.NewInt(hedera.WeibarPerTinybar)
	fee := new(big.Int).Div(price, tinybar)
	fee.Add(fee, new(big.Int).Div(new(big.Int).Add(fee, big.NewInt(4)), big.NewInt(5))) // rounded up
	t.maxFee = fee.Mul(fee, tinybar)
	t.maxFee.Add(t.maxFee, t.tip)
	return nil
}

// unsigned is the transaction of complete arguments, of the lowest type that can hold
// them, except that one without a gas price is at least of type 2.
func (t *txArgs) unsigned(chain *big.Int) types.TxData {
	value := t.value
	value = cmp.Or(value, new(big.Int))
	switch {
	case t.authorizations != nil:
		return &types.SetCodeTx{
			ChainID: uint256.MustFromBig(chain), Nonce: *t.nonce, GasTipCap: uint256.MustFromBig(t.tip), GasFeeCap: uint256.MustFromBig(t.maxFee),
			Gas: *t.gas, To: *t.to, Value: uint256.MustFromBig(value), Data: t.data, AccessList: t.accessList, AuthList: t.authorizations,
		}
	case t.price == nil:
		return &types.DynamicFeeTx{
			ChainID: chain, Nonce: *t.nonce, GasTipCap: t.tip, GasFeeCap: t.maxFee,
			Gas: *t.gas, To: t.to, Value: value, Data: t.data, AccessList: t.accessList,
		}
	case t.accessList != nil:
		return &types.AccessListTx{
			ChainID: chain, Nonce: *t.nonce, GasPrice: t.price,
			Gas: *t.gas, To: t.to, Value: value, Data: t.data, AccessList: t.accessList,
		}
	}
	return &types.LegacyTx{Nonce: *t.nonce, GasPrice: t.price, Gas: *t.gas, To: t.to, Value: value, Data: t.data}
}
