package ledger

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha512"
	"encoding/binary"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// rig is a ledger with ways to submit to it.
type rig struct {
	t testing.TB
	*Ledger
	start int32 // makes transaction ids differ
}

func newRig(t testing.TB, cfg Config) *rig {
	t.Helper()
	l := must.Get(New(cfg))(t)
	return &rig{t: t, Ledger: l}
}

// party is an account whose key the test holds.
type party struct {
	id      hedera.ID
	key     *ecdsa.PrivateKey
	address common.Address
}

func dev(t testing.TB, n int) party {
	t.Helper()
	a := devaccounts.All()[n]
	key := must.Get(crypto.HexToECDSA(a.PrivateKey))(t)
	return party{id: a.ID, key: key, address: crypto.PubkeyToAddress(key.PublicKey)}
}

func fresh(t testing.TB, seed byte) party {
	t.Helper()
	key := must.Get(crypto.ToECDSA(common.LeftPadBytes([]byte{seed, 1, 2, 3}, 32)))(t)
	return party{key: key, address: crypto.PubkeyToAddress(key.PublicKey)}
}

const (
	price     = DefaultGasPrice
	weiPrice  = int64(price) * hedera.WeibarPerTinybar
	testChain = DefaultChainID
)

func wei(t hedera.Tinybar) *big.Int { return t.Weibar() }

// submit signs a body with ECDSA keys and handles it.
func (r *rig) submit(payer hedera.ID, body *hapi.TransactionBody, keys ...*ecdsa.PrivateKey) *history.Record {
	r.t.Helper()
	r.start++
	id := hedera.TransactionID{Payer: payer, ValidStart: hedera.Timestamp{Seconds: 1_700_000_000, Nanos: r.start}}
	return r.Handle(r.submission(id, body, keys...))
}

// signed is a body as it is signed, and the signatures.
func (r *rig) signed(body *hapi.TransactionBody, keys ...*ecdsa.PrivateKey) ([]byte, []*hapi.SignaturePair) {
	r.t.Helper()
	body.TransactionFee = 100_000_000
	if file := body.GetFileCreate(); file != nil && file.ExpirationTime == nil {
		file.ExpirationTime = &hapi.Timestamp{Seconds: 4_000_000_000} // of which few tests say anything
	}
	raw := must.Get(proto.Marshal(body))(r.t)
	pairs := make([]*hapi.SignaturePair, 0, len(keys))
	for _, key := range keys {
		signature := must.Get(crypto.Sign(crypto.Keccak256(raw), key))(r.t)
		pairs = append(pairs, &hapi.SignaturePair{
			PubKeyPrefix: crypto.CompressPubkey(&key.PublicKey),
			Signature:    &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: signature[:64]},
		})
	}
	return raw, pairs
}

func (r *rig) submission(id hedera.TransactionID, body *hapi.TransactionBody, keys ...*ecdsa.PrivateKey) *core.Submission {
	r.t.Helper()
	raw, pairs := r.signed(body, keys...)
	var nonce [8]byte
	binary.BigEndian.PutUint32(nonce[:], uint32(id.ValidStart.Nanos))
	sub := &core.Submission{
		Body: body, ID: id, Payer: id.Payer, Hash: sha512.Sum384(append(raw, nonce[:]...)), Size: len(raw),
		Signatures: hapikey.NewSignatures(raw, pairs), Node: hedera.Entity(3),
	}
	if e := body.GetEthereumTransaction(); e != nil && e.CallData == nil {
		if tx, err := eth.DecodeTx(e.EthereumData); err == nil {
			sub.Ethereum = tx
		}
	}
	return sub
}

// ethereum submits a signed Ethereum transaction, paid for by dev account 9.
func (r *rig) ethereum(from party, fields types.TxData) *history.Record {
	r.t.Helper()
	return r.relayed(from, fields, 0)
}

func (r *rig) relayed(from party, fields types.TxData, allowance hedera.Tinybar) *history.Record {
	r.t.Helper()
	relayer := dev(r.t, 9)
	return r.submit(relayer.id, ethereumBody(r.t, from, fields, allowance), relayer.key)
}

func ethereumBody(t testing.TB, from party, fields types.TxData, allowance hedera.Tinybar) *hapi.TransactionBody {
	t.Helper()
	tx := must.Get(types.SignNewTx(from.key, types.LatestSignerForChainID(big.NewInt(testChain)), fields))(t)
	raw := must.Get(tx.MarshalBinary())(t)
	return core.BodyOf(&hapi.EthereumTransactionBody{EthereumData: raw, MaxGasAllowance: int64(allowance)})
}

// dynamic is a type 2 transaction at a price above the network's.
func dynamic(nonce uint64, to *common.Address, value hedera.Tinybar, gas uint64, data []byte) *types.DynamicFeeTx {
	return &types.DynamicFeeTx{
		ChainID: big.NewInt(testChain), Nonce: nonce, To: to, Value: wei(value), Gas: gas, Data: data,
		GasFeeCap: big.NewInt(2 * weiPrice), GasTipCap: big.NewInt(weiPrice),
	}
}

func (r *rig) balance(a common.Address) hedera.Tinybar {
	r.t.Helper()
	acct, ok := r.View().AccountByAddress(a)
	if !ok {
		r.t.Fatalf("no account at %s", a)
	}
	return acct.Balance
}

func (r *rig) want(rec *history.Record, status hedera.Status) {
	r.t.Helper()
	if rec.Status != status {
		message := ""
		if rec.Result != nil {
			message = rec.Result.ErrorMessage
		}
		r.t.Fatalf("status %s (%s), want %s", rec.Status, message, status)
	}
}

func TestTransfer(t *testing.T) {
	r := newRig(t, Config{})
	from, to := dev(t, 0), dev(t, 1)
	before, beforeTo := r.balance(from.address), r.balance(to.address)
	rec := r.ethereum(from, dynamic(0, &to.address, 5, 100_000, nil))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	if got, want := before-r.balance(from.address), 21_000*price+5; got != want {
		t.Errorf("sender paid %d tinybar, want %d", got, want)
	}
	if got := r.balance(to.address) - beforeTo; got != 5 {
		t.Errorf("receiver got %d tinybar, want 5", got)
	}
	if rec.Result.GasUsed != 21_000 || rec.Result.Index != 0 || rec.Fee != 21_000*price {
		t.Errorf("result %+v", rec.Result)
	}
	sum := hedera.Tinybar(0)
	for _, transfer := range rec.Transfers {
		sum += transfer.Amount
	}
	if sum != 0 || len(rec.Transfers) != 3 {
		t.Errorf("transfers %v", rec.Transfers)
	}
	b := r.View().LatestBlock()
	if b.Number != 1 || len(b.Records) != 1 || b.GasUsed != 21_000 || rec.Block != 1 {
		t.Errorf("block %+v", b)
	}
}

func number(n int64) common.Hash { return common.BigToHash(big.NewInt(n)) }

// What the EVM shows of its surroundings.
func TestEnvironment(t *testing.T) {
	from, other := dev(t, 0), dev(t, 1)
	const gas, value = 300_000, 5
	tests := []struct {
		name string
		code *program.Program
		want func(r *rig, rec *history.Record) common.Hash
	}{
		{"CHAINID", program.New().Op(vm.CHAINID), func(*rig, *history.Record) common.Hash { return number(testChain) }},
		{"BASEFEE", program.New().Op(vm.BASEFEE), func(*rig, *history.Record) common.Hash { return number(0) }},
		{"BLOBBASEFEE", program.New().Op(vm.BLOBBASEFEE), func(*rig, *history.Record) common.Hash { return number(1) }},
		{"BLOBHASH", program.New().Push(0).Op(vm.BLOBHASH), func(*rig, *history.Record) common.Hash { return number(0) }},
		{"COINBASE", program.New().Op(vm.COINBASE), func(*rig, *history.Record) common.Hash { return number(98) }},
		{"GASLIMIT", program.New().Op(vm.GASLIMIT), func(*rig, *history.Record) common.Hash { return number(gas) }},
		{"GASPRICE", program.New().Op(vm.GASPRICE), func(*rig, *history.Record) common.Hash { return number(int64(price)) }},
		{"NUMBER", program.New().Op(vm.NUMBER), func(_ *rig, rec *history.Record) common.Hash { return number(rec.Block) }},
		{"TIMESTAMP", program.New().Op(vm.TIMESTAMP), func(_ *rig, rec *history.Record) common.Hash { return number(rec.Consensus.Seconds) }},
		{"CALLVALUE", program.New().Op(vm.CALLVALUE), func(*rig, *history.Record) common.Hash { return number(value) }},
		{"SELFBALANCE", program.New().Op(vm.SELFBALANCE), func(*rig, *history.Record) common.Hash { return number(value) }},
		{"ORIGIN", program.New().Op(vm.ORIGIN), func(*rig, *history.Record) common.Hash { return common.BytesToHash(from.address[:]) }},
		{"CALLER", program.New().Op(vm.CALLER), func(*rig, *history.Record) common.Hash { return common.BytesToHash(from.address[:]) }},
		{"BALANCE of an alias", program.New().Push(other.address).Op(vm.BALANCE), func(*rig, *history.Record) common.Hash { return number(int64(devaccounts.RichBalance)) }},
		{"BALANCE of its number", program.New().Push(int(other.id.Num)).Op(vm.BALANCE), func(*rig, *history.Record) common.Hash { return number(int64(devaccounts.RichBalance)) }},
		{"BALANCE of the treasury", program.New().Push(2).Op(vm.BALANCE), func(*rig, *history.Record) common.Hash { return number(0) }},
		{"BALANCE of nobody", program.New().Push(99_999).Op(vm.BALANCE), func(*rig, *history.Record) common.Hash { return number(0) }},
		{"EXTCODESIZE of the token service", program.New().Push(0x167).Op(vm.EXTCODESIZE), func(*rig, *history.Record) common.Hash { return number(0) }},
		{"EXTCODEHASH of an account", program.New().Push(other.address).Op(vm.EXTCODEHASH), func(*rig, *history.Record) common.Hash { return types.EmptyCodeHash }},
		{"EXTCODEHASH of nobody", program.New().Push(99_999).Op(vm.EXTCODEHASH), func(*rig, *history.Record) common.Hash { return common.Hash{} }},
		{"BLOCKHASH", program.New().Push(1).Op(vm.NUMBER, vm.SUB, vm.BLOCKHASH), func(r *rig, rec *history.Record) common.Hash {
			b, _ := r.View().BlockByNumber(rec.Block - 1)
			return common.Hash(b.Hash[:32])
		}},
		{"BLOCKHASH of this block", program.New().Op(vm.NUMBER, vm.BLOCKHASH), func(*rig, *history.Record) common.Hash { return common.Hash{} }},
		{"transient storage", program.New().Tstore(1, 7).Push(1).Op(vm.TLOAD), func(*rig, *history.Record) common.Hash { return number(7) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			contract := r.deploy(from, 0, returnTop(tt.code))
			rec := r.ethereum(from, dynamic(1, &contract, value, gas, nil))
			r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
			if got, want := common.BytesToHash(rec.Result.Output), tt.want(r, rec); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// Randomness is the running hash of three records ago: it changes with every
// transaction, is the same throughout one, and the random contract shows the same.
func TestRandomness(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	contract := r.deploy(from, 0, returnTop(program.New().Op(vm.PREVRANDAO)))
	selector := common.FromHex("0xd83bf9a1")
	seen := map[common.Hash]bool{}
	random := hedera.Entity(evm.NumRandom).LongZero()
	for i := range uint64(6) {
		want := r.chain.Seed()
		rec := r.ethereum(from, dynamic(2*i+1, &contract, 0, 100_000, nil))
		got := common.BytesToHash(rec.Result.Output)
		if got != common.Hash(want[:32]) || i > 2 && seen[got] {
			t.Errorf("round %d: %s", i, got)
		}
		seen[got] = true
		want = r.chain.Seed()
		rec = r.ethereum(from, dynamic(2*i+2, &random, 0, 100_000, selector))
		r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
		if !bytes.Equal(rec.Result.Output, want[:32]) {
			t.Errorf("contract: %x", rec.Result.Output)
		}
	}
}

// A tool may choose the randomness of a block; it holds for that one.
func TestChosenRandomness(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	contract := r.deploy(from, 0, returnTop(program.New().Op(vm.PREVRANDAO)))
	want := common.HexToHash("0x1234")
	r.SetSeed(want)
	rec := r.ethereum(from, dynamic(1, &contract, 0, 100_000, nil))
	if got := common.BytesToHash(rec.Result.Output); got != want {
		t.Errorf("got %s", got)
	}
	if trace, err := r.View().Opcodes(t.Context(), rec, evm.OpcodeOptions{}); err != nil || common.BytesToHash(trace.ReturnValue) != want {
		t.Errorf("replayed: %+v, %v", trace, err)
	}
	if rec := r.ethereum(from, dynamic(2, &contract, 0, 100_000, nil)); common.BytesToHash(rec.Result.Output) == want {
		t.Error("the block after it has the same")
	}
}

func TestSystemContracts(t *testing.T) {
	other := dev(t, 1)
	word := func(h common.Hash) []byte { return h[:] }
	address := func(a common.Address) []byte { return common.LeftPadBytes(a[:], 32) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	unused := common.HexToAddress("0xabcdef0000000000000000000000000000000001")
	const okGas = evm.ExchangeRateGas
	tests := []struct {
		name  string
		num   int64
		input []byte
		want  hedera.Status
		out   []byte
	}{
		{"tinycents to tinybar", evm.NumExchangeRate, join(common.FromHex("2e3cff6a"), word(number(1200))), hapi.ResponseCodeEnum_SUCCESS, word(number(100))},
		{"tinybar to tinycents", evm.NumExchangeRate, join(common.FromHex("43a88229"), word(number(100))), hapi.ResponseCodeEnum_SUCCESS, word(number(1200))},
		{"rate of nothing", evm.NumExchangeRate, common.FromHex("43a88229"), hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, nil},
		{"rate, unknown", evm.NumExchangeRate, join(common.FromHex("deadbeef"), word(number(1))), hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, nil},
		{"isToken", evm.NumTokenService, join(common.FromHex("19f37361"), address(unused)), hapi.ResponseCodeEnum_SUCCESS, join(word(number(22)), word(number(0)))},
		{"token service, unknown", evm.NumTokenService, common.FromHex("deadbeef"), hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, nil},
		{"token service, nothing", evm.NumTokenService, nil, hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, nil},
		{"schedule service", evm.NumScheduleService, common.FromHex("deadbeef"), hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, nil},
		{"alias of a number", evm.NumAccountService, join(common.FromHex("dea3d081"), address(other.id.LongZero())), hapi.ResponseCodeEnum_SUCCESS, join(word(number(22)), address(other.address))},
		{"alias of an alias", evm.NumAccountService, join(common.FromHex("dea3d081"), address(other.address)), hapi.ResponseCodeEnum_SUCCESS, join(word(number(15)), word(number(0)))},
		{"alias of nobody", evm.NumAccountService, join(common.FromHex("dea3d081"), address(unused)), hapi.ResponseCodeEnum_SUCCESS, join(word(number(15)), word(number(0)))},
		{"number of an alias", evm.NumAccountService, join(common.FromHex("bbf12d2e"), address(other.address)), hapi.ResponseCodeEnum_SUCCESS, join(word(number(22)), address(other.id.LongZero()))},
		{"number of nobody", evm.NumAccountService, join(common.FromHex("bbf12d2e"), address(unused)), hapi.ResponseCodeEnum_SUCCESS, join(word(number(29)), word(number(0)))},
		{"number of a number", evm.NumAccountService, join(common.FromHex("bbf12d2e"), address(other.id.LongZero())), hapi.ResponseCodeEnum_SUCCESS, join(word(number(29)), word(number(0)))},
		{"number without alias", evm.NumAccountService, join(common.FromHex("bbf12d2e"), address(hedera.Entity(2).LongZero())), hapi.ResponseCodeEnum_SUCCESS, join(word(number(22)), address(hedera.Entity(2).LongZero()))},
		{"valid alias", evm.NumAccountService, join(common.FromHex("308ef301"), address(other.address)), hapi.ResponseCodeEnum_SUCCESS, word(number(1))},
		{"no alias", evm.NumAccountService, join(common.FromHex("308ef301"), address(unused)), hapi.ResponseCodeEnum_SUCCESS, word(number(0))},
		{"sha256", 2, []byte("abc"), hapi.ResponseCodeEnum_SUCCESS, common.FromHex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			to := hedera.Entity(tt.num).LongZero()
			rec := r.ethereum(dev(t, 0), dynamic(0, &to, 0, 100_000, tt.input))
			r.want(rec, tt.want)
			if !bytes.Equal(rec.Result.Output, tt.out) {
				t.Errorf("output %x, want %x", rec.Result.Output, tt.out)
			}
			if tt.num == evm.NumExchangeRate && tt.out != nil && rec.Result.GasUsed != charged(tt.input, okGas) {
				t.Errorf("gas %d", rec.Result.GasUsed)
			}
			if tt.out == nil && rec.Result.GasUsed != 100_000 {
				t.Errorf("a halt left gas: %d used", rec.Result.GasUsed)
			}
		})
	}
}

// An access list neither costs nor warms anything, and the coinbase is cold.
func TestWarmth(t *testing.T) {
	from := dev(t, 0)
	cold := common.HexToAddress("0xabcdef0000000000000000000000000000000001")
	gasOf := func(p *program.Program) uint64 {
		r := newRig(t, Config{})
		contract := r.deploy(from, 0, p.Bytes())
		tx := dynamic(1, &contract, 0, 200_000, nil)
		tx.AccessList = types.AccessList{{Address: cold, StorageKeys: []common.Hash{{1}, {2}}}}
		rec := r.ethereum(from, tx)
		r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
		return rec.Result.GasUsed
	}
	const push, balance = 3, 2_600
	if got := gasOf(program.New().Push(cold).Op(vm.BALANCE)); got != eth.TxGas+push+balance {
		t.Errorf("listed address: %d", got)
	}
	if got := gasOf(program.New().Op(vm.COINBASE, vm.BALANCE)); got != eth.TxGas+2+balance {
		t.Errorf("coinbase: %d", got)
	}
	if got := gasOf(program.New().Op(vm.CALLER, vm.BALANCE)); got != eth.TxGas+2+100 {
		t.Errorf("sender: %d", got)
	}
}

// charged is what a call with data is charged whose code needs gas: no less than the floor of its data.
func charged(data []byte, gas uint64) uint64 {
	standard, floor := eth.DataGas(data, false)
	return max(standard+gas, floor)
}

// Clearing a slot refunds 4,800, at most a fifth of what was used.
func TestRefunds(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	// Stores what it is called with in slot 1.
	contract := r.deploy(from, 0, program.New().Push(0).Op(vm.CALLDATALOAD).Push(1).Op(vm.SSTORE).Bytes())
	one := number(1)
	set := r.ethereum(from, dynamic(1, &contract, 0, 100_000, one[:]))
	r.want(set, hapi.ResponseCodeEnum_SUCCESS)
	// PUSH1, CALLDATALOAD, PUSH1, SSTORE of a cold slot that was zero.
	const steps = 3 + 3 + 3
	if want := charged(one[:], steps+2_100+20_000); set.Result.GasUsed != want {
		t.Errorf("set: %d, want %d", set.Result.GasUsed, want)
	}
	changes := set.Result.StateChanges
	if len(changes) != 1 || changes[0].Slot != one || changes[0].Read != (common.Hash{}) || *changes[0].Written != one {
		t.Errorf("changes %+v", changes)
	}
	zero := make([]byte, 32)
	clearing := r.ethereum(from, dynamic(2, &contract, 0, 100_000, zero))
	nominal := charged(zero, steps+2_100+2_900)
	if want := nominal - min(nominal/5, 4_800); clearing.Result.GasUsed != want {
		t.Errorf("cleared: %d, want %d", clearing.Result.GasUsed, want)
	}
	// History keeps both.
	id := set.ContractID
	if got := r.View().At(set.Consensus).Storage(id, one).Value; got != one {
		t.Errorf("then %s", got)
	}
	if got := r.View().Storage(id, one); got.Value != (common.Hash{}) || got.Modified != clearing.Consensus {
		t.Errorf("now %+v", got)
	}
	if got := r.View().StorageSlots(id); len(got) != 1 {
		t.Errorf("slots %v", got)
	}
}

func TestLogs(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	contract := r.deploy(from, 0, program.New().Push(7).Push(0).Op(vm.MSTORE).
		Push(0xbeef).Push(32).Push(0).Op(vm.LOG1).Push(0).Push(0).Op(vm.LOG0).Bytes())
	rec := r.ethereum(from, dynamic(1, &contract, 0, 100_000, nil))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	logs := rec.Result.Logs
	if len(logs) != 2 || logs[0].Index != 0 || logs[1].Index != 1 || logs[0].Address != contract || logs[0].Contract != rec.ContractID ||
		logs[0].Topics[0] != number(0xbeef) || !bytes.Equal(logs[0].Data, common.LeftPadBytes([]byte{7}, 32)) {
		t.Fatalf("logs %+v", logs)
	}
	want := logs[0].Bloom()
	for i, b := range logs[1].Bloom() {
		want[i] |= b
	}
	block := r.View().LatestBlock()
	if *rec.Result.Bloom != want || block.Bloom != want {
		t.Error("bloom")
	}
	// Events of tokens that no contract had a part in are in the block's bloom, too.
	token, holder := r.fungibleToken(from, nil), dev(t, 1)
	r.associated(holder, token)
	r.want(r.submit(from.id, units(token, from.id.AccountID(), -1, holder.id.AccountID(), 1), from.key), okay)
	if block := r.View().LatestBlock(); !types.BloomLookup(block.Bloom, token.LongZero()) {
		t.Error("the event of a transfer of tokens is not in the bloom of its block")
	}
}

// BenchmarkTransfer is a value transfer from the moment consensus has it: execution,
// commit, block. The second case is in the steady state of a long run, where every
// new block makes an old one go.
func BenchmarkTransfer(b *testing.B) {
	for name, history := range map[string]int{"history growing": 1 << 20, "history full": 10_000} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, Config{History: history})
			from, to, relayer := dev(b, 0), dev(b, 1), dev(b, 9)
			subs := make([]*core.Submission, b.N)
			for i := range subs {
				body := ethereumBody(b, from, dynamic(uint64(i), &to.address, 5, 100_000, nil), 0)
				subs[i] = r.submission(hedera.TransactionID{
					Payer: relayer.id, ValidStart: hedera.Timestamp{Seconds: int64(i)},
				}, body)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for _, sub := range subs {
				r.want(r.Handle(sub), okay)
			}
		})
	}
}
