package ledger

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/files"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func aliasID(alias []byte) *hapi.AccountID {
	return &hapi.AccountID{Account: &hapi.AccountID_Alias{Alias: alias}}
}

// amounts is a transfer: accounts and amounts in turn.
func amounts(parts ...any) *hapi.TransactionBody {
	list := &hapi.TransferList{}
	for pair := range slices.Chunk(parts, 2) {
		id, _ := pair[0].(*hapi.AccountID)
		n, _ := pair[1].(int)
		list.AccountAmounts = append(list.AccountAmounts, &hapi.AccountAmount{AccountID: id, Amount: int64(n)})
	}
	return core.BodyOf(&hapi.CryptoTransferTransactionBody{Transfers: list})
}

func publicKey(p party) *hapi.Key { return hapikey.Secp256k1(crypto.CompressPubkey(&p.key.PublicKey)) }

func TestCryptoTransfer(t *testing.T) {
	payer, other, stranger := dev(t, 0), dev(t, 1), fresh(t, 1)
	me, you := payer.id.AccountID(), other.id.AccountID()
	tests := []struct {
		name string
		body *hapi.TransactionBody
		keys []*ecdsa.PrivateKey
		want hedera.Status
	}{
		{"plain", amounts(me, -5, you, 5), nil, okay},
		{"by alias", amounts(aliasID(payer.address[:]), -5, aliasID(other.address[:]), 5), nil, okay},
		{"of another who signs", amounts(you, -5, me, 5), []*ecdsa.PrivateKey{other.key}, okay},
		{"of another who does not", amounts(you, -5, me, 5), nil, hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		{"to nobody", amounts(me, -5, hedera.Entity(9_999).AccountID(), 5), nil, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID},
		{"from nobody", amounts(aliasID(stranger.address[:]), -5, me, 5), nil, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID},
		{"to a number as alias", amounts(me, -5, aliasID(hedera.Entity(9_999).LongZero().Bytes()), 5), nil, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY},
		{"to nonsense", amounts(me, -5, aliasID([]byte{1, 2, 3}), 5), nil, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY},
		{"more than there is", amounts(me, -int(devaccounts.RichBalance)-1, you, int(devaccounts.RichBalance)+1), nil, hapi.ResponseCodeEnum_INSUFFICIENT_ACCOUNT_BALANCE},
		{"twice the same", amounts(me, -10, you, 5, aliasID(other.address[:]), 5), nil, hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS},
		{"twice the same new one", amounts(me, -10, aliasID(stranger.address[:]), 5, aliasID(stranger.address[:]), 5), nil, hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			rec := r.submit(payer.id, tt.body, append(tt.keys, payer.key)...)
			r.want(rec, tt.want)
			if (rec.Status == okay) != (len(rec.Transfers) == 2) || len(rec.Children) != 0 {
				t.Errorf("transfers %v, children %v", rec.Transfers, rec.Children)
			}
		})
	}
}

func TestTransferCreatesAccounts(t *testing.T) {
	r := newRig(t, Config{})
	payer, a, b := dev(t, 0), fresh(t, 1), fresh(t, 2)
	keyAlias := core.Marshal(publicKey(b))
	edKey := hapikey.Ed25519(bytes.Repeat([]byte{7}, 32))
	rec := r.submit(payer.id, amounts(
		payer.id.AccountID(), -30, aliasID(a.address[:]), 10, aliasID(keyAlias), 10, aliasID(core.Marshal(edKey)), 10,
	), payer.key)
	r.want(rec, okay)
	if len(rec.Children) != 3 || rec.Children[0].Consensus.UnixNano() != rec.Consensus.UnixNano()-3 {
		t.Fatalf("children %v", rec.Children)
	}
	view := r.View()
	hollow, _ := view.AccountByAddress(a.address)
	full, _ := view.AccountByAddress(b.address)
	if !hollow.IsHollow() || full.IsHollow() || full.Balance != 10 || !bytes.Equal(full.Alias, keyAlias) {
		t.Errorf("hollow %+v, full %+v", hollow, full)
	}
	id, ok := view.ResolveAlias(core.Marshal(edKey))
	ed, _ := view.Account(id)
	if !ok || ed.Address != id.LongZero() || ed.Key.GetEd25519() == nil {
		t.Errorf("ed25519 %+v", ed)
	}
	// A hollow account completes by paying for something, signed with its key.
	rec = r.submit(hollow.ID, amounts(hollow.ID.AccountID(), -1, payer.id.AccountID(), 1), a.key)
	r.want(rec, okay)
	if done, _ := r.View().Account(hollow.ID); done.IsHollow() || len(rec.Children) != 1 {
		t.Errorf("after paying: %+v", done)
	}
}

func create(edit func(*hapi.CryptoCreateTransactionBody)) *hapi.TransactionBody {
	body := &hapi.CryptoCreateTransactionBody{AutoRenewPeriod: &hapi.Duration{Seconds: core.GenesisRenewal}}
	edit(body)
	return core.BodyOf(body)
}

func TestCryptoCreate(t *testing.T) {
	payer, owner, other, stranger := dev(t, 0), fresh(t, 1), dev(t, 1), fresh(t, 2)
	tests := []struct {
		name string
		edit func(*hapi.CryptoCreateTransactionBody)
		keys []*ecdsa.PrivateKey
		want hedera.Status
	}{
		{"plain", func(*hapi.CryptoCreateTransactionBody) {}, nil, okay},
		{"alias of its key, signed", func(b *hapi.CryptoCreateTransactionBody) { b.Alias = owner.address[:] }, []*ecdsa.PrivateKey{owner.key}, okay},
		{"alias of its key, unsigned", func(b *hapi.CryptoCreateTransactionBody) { b.Alias = owner.address[:] }, nil, okay},
		{"alias of another key, unsigned", func(b *hapi.CryptoCreateTransactionBody) { b.Alias = stranger.address[:] }, nil, hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		{"alias in use", func(b *hapi.CryptoCreateTransactionBody) { b.Alias, b.Key = other.address[:], publicKey(other) }, []*ecdsa.PrivateKey{other.key}, hapi.ResponseCodeEnum_ALIAS_ALREADY_ASSIGNED},
		{"alias that is a number", func(b *hapi.CryptoCreateTransactionBody) { b.Alias = hedera.Entity(9_999).LongZero().Bytes() }, nil, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY},
		{"alias that is the key", func(b *hapi.CryptoCreateTransactionBody) { b.Alias = core.Marshal(publicKey(owner)) }, nil, okay},
		{"alias that is another key", func(b *hapi.CryptoCreateTransactionBody) { b.Alias = core.Marshal(publicKey(other)) }, nil, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY},
		{"more than the payer has", func(b *hapi.CryptoCreateTransactionBody) { b.InitialBalance = uint64(devaccounts.RichBalance) + 1 }, nil, hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE},
		{"receiver must sign, does not", func(b *hapi.CryptoCreateTransactionBody) { b.ReceiverSigRequired = true }, nil, hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		{"stakes to nobody", func(b *hapi.CryptoCreateTransactionBody) {
			b.StakedId = &hapi.CryptoCreateTransactionBody_StakedNodeId{StakedNodeId: 9}
		}, nil, hapi.ResponseCodeEnum_INVALID_STAKING_ID},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			body := create(func(b *hapi.CryptoCreateTransactionBody) {
				b.Key, b.InitialBalance, b.Memo = publicKey(owner), 500, "mine"
				tt.edit(b)
			})
			rec := r.submit(payer.id, body, append(tt.keys, payer.key)...)
			r.want(rec, tt.want)
			if tt.want != okay {
				if !rec.Account.IsZero() || len(rec.Transfers) != 0 {
					t.Errorf("record %+v", rec)
				}
				return
			}
			a, ok := r.View().Account(rec.Account)
			if !ok || rec.Account.Num != 1042 || a.Balance != 500 || a.Memo != "mine" || a.Created != rec.Consensus {
				t.Errorf("account %+v", a)
			}
			want := a.ID.LongZero()
			if len(a.Alias) > 0 {
				want = owner.address
			}
			if a.Address != want || len(a.Alias) > 0 != (len(rec.EVMAddress) > 0) {
				t.Errorf("address %s, record %x", a.Address, rec.EVMAddress)
			}
		})
	}
}

func TestPureChecks(t *testing.T) {
	owner := fresh(t, 1)
	ok := func(b *hapi.CryptoCreateTransactionBody) { b.Key = publicKey(owner) }
	call := func(c *hapi.ContractCallTransactionBody) *hapi.TransactionBody {
		return core.BodyOf(c)
	}
	tests := map[string]struct {
		body *hapi.TransactionBody
		want hedera.Status
	}{
		"create":             {create(ok), okay},
		"no key":             {create(func(*hapi.CryptoCreateTransactionBody) {}), hapi.ResponseCodeEnum_KEY_REQUIRED},
		"no period":          {create(func(b *hapi.CryptoCreateTransactionBody) { ok(b); b.AutoRenewPeriod = nil }), hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD},
		"negative period":    {create(func(b *hapi.CryptoCreateTransactionBody) { ok(b); b.AutoRenewPeriod.Seconds = -1 }), hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD},
		"overflow":           {amounts(hedera.Entity(2).AccountID(), 1<<62, hedera.Entity(3).AccountID(), 1<<62), hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS},
		"call":               {call(&hapi.ContractCallTransactionBody{Gas: 21_000}), okay},
		"call with no gas":   {call(&hapi.ContractCallTransactionBody{Gas: 20_999}), hapi.ResponseCodeEnum_INSUFFICIENT_GAS},
		"call, negative gas": {call(&hapi.ContractCallTransactionBody{Gas: -1}), hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_GAS},
		"call, negative":     {call(&hapi.ContractCallTransactionBody{Gas: 21_000, Amount: -1}), okay}, // handling refuses it
		"nothing":            {&hapi.TransactionBody{}, hapi.ResponseCodeEnum_NOT_SUPPORTED},
	}
	for name, tt := range tests {
		if got := newRig(t, Config{}).PureCheck(tt.body); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestUpdateAndDelete(t *testing.T) {
	r := newRig(t, Config{})
	payer, other, next := dev(t, 0), dev(t, 1), fresh(t, 1)
	update := &hapi.CryptoUpdateTransactionBody{
		AccountIDToUpdate: other.id.AccountID(), Key: publicKey(next), Memo: wrapperspb.String("new"),
		ReceiverSigRequiredWrapper: wrapperspb.Bool(true),
	}
	body := func() *hapi.TransactionBody {
		return core.BodyOf(update)
	}
	r.want(r.submit(payer.id, body(), payer.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	r.want(r.submit(payer.id, body(), payer.key, other.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	updated := r.submit(payer.id, body(), payer.key, other.key, next.key)
	r.want(updated, okay)
	a, _ := r.View().Account(other.id)
	if a.Memo != "new" || !a.ReceiverSigRequired || a.Address != other.address || a.Modified != updated.Consensus {
		t.Errorf("account %+v", a)
	}
	if old, _ := r.View().At(hedera.FromNanos(updated.Consensus.UnixNano() - 1)).Account(other.id); old.Memo != "" {
		t.Errorf("before %+v", old)
	}
	// It wants to be asked now, by HAPI at least.
	pay := func() *hapi.TransactionBody { return amounts(payer.id.AccountID(), -5, other.id.AccountID(), 5) }
	r.want(r.submit(payer.id, pay(), payer.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	r.want(r.submit(payer.id, pay(), payer.key, next.key), okay)

	remove := func(id, to hedera.ID) *hapi.TransactionBody {
		return core.BodyOf(&hapi.CryptoDeleteTransactionBody{
			DeleteAccountID: id.AccountID(), TransferAccountID: to.AccountID(),
		})
	}
	r.want(r.submit(payer.id, remove(other.id, other.id), payer.key, next.key), hapi.ResponseCodeEnum_TRANSFER_ACCOUNT_SAME_AS_DELETE_ACCOUNT)
	r.want(r.submit(payer.id, remove(hedera.Entity(98), payer.id), payer.key), hapi.ResponseCodeEnum_ENTITY_NOT_ALLOWED_TO_DELETE)
	r.want(r.submit(payer.id, remove(other.id, payer.id), payer.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	r.want(r.submit(payer.id, remove(other.id, payer.id), payer.key, next.key), okay)
	r.want(r.submit(payer.id, remove(other.id, payer.id), payer.key, next.key), hapi.ResponseCodeEnum_ACCOUNT_DELETED)
	if a, _ := r.View().Account(other.id); !a.Deleted || a.Balance != 0 || a.Obtainer != payer.id || r.balance(payer.address) != 2*devaccounts.RichBalance {
		t.Errorf("deleted %+v", a)
	}
	r.want(r.submit(payer.id, pay(), payer.key), hapi.ResponseCodeEnum_ACCOUNT_DELETED)
	r.want(r.ethereum(other, dynamic(0, &payer.address, 1, 21_000, nil)), hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID)
}

func TestFiles(t *testing.T) {
	r := newRig(t, Config{})
	payer, owner := dev(t, 0), dev(t, 1)
	keys := &hapi.KeyList{Keys: []*hapi.Key{publicKey(payer), publicKey(owner)}}
	create := func(contents []byte, keys *hapi.KeyList) *hapi.TransactionBody {
		return core.BodyOf(&hapi.FileCreateTransactionBody{Contents: contents, Keys: keys, Memo: "m"})
	}
	r.want(r.submit(payer.id, create([]byte("a"), keys), payer.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	rec := r.submit(payer.id, create([]byte("a"), keys), payer.key, owner.key)
	r.want(rec, okay)
	if rec.File.Num != 1042 || rec.Entity != rec.File {
		t.Fatalf("record %+v", rec)
	}
	id := &hapi.FileID{FileNum: rec.File.Num}
	grow := func(by []byte) *hapi.TransactionBody {
		return core.BodyOf(&hapi.FileAppendTransactionBody{FileID: id, Contents: by})
	}
	r.want(r.submit(payer.id, grow([]byte("b")), payer.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	r.want(r.submit(payer.id, grow([]byte("b")), payer.key, owner.key), okay)
	r.want(r.submit(payer.id, grow(make([]byte, files.MaxFileSize)), payer.key, owner.key), hapi.ResponseCodeEnum_MAX_FILE_SIZE_EXCEEDED)
	f, ok := r.View().File(rec.File)
	if !ok || string(f.Contents) != "ab" || f.Memo != "m" || f.Created != rec.Consensus {
		t.Errorf("file %+v", f)
	}
	change := core.BodyOf(&hapi.FileUpdateTransactionBody{FileID: id, Contents: []byte("new"), Memo: wrapperspb.String("n")})
	r.want(r.submit(payer.id, change, payer.key, owner.key), okay)
	if f, _ = r.View().File(rec.File); string(f.Contents) != "new" || f.Memo != "n" {
		t.Errorf("file %+v", f)
	}
	remove := func() *hapi.TransactionBody {
		return core.BodyOf(&hapi.FileDeleteTransactionBody{FileID: id})
	}
	r.want(r.submit(payer.id, remove(), payer.key), okay) // one key is enough
	r.want(r.submit(payer.id, remove(), payer.key), hapi.ResponseCodeEnum_FILE_DELETED)
	r.want(r.submit(payer.id, grow([]byte("b")), payer.key, owner.key), hapi.ResponseCodeEnum_FILE_DELETED)

	forever := r.submit(payer.id, create([]byte("fixed"), nil), payer.key)
	r.want(forever, okay)
	id = &hapi.FileID{FileNum: forever.File.Num}
	r.want(r.submit(payer.id, grow([]byte("b")), payer.key), hapi.ResponseCodeEnum_UNAUTHORIZED)
	r.want(r.submit(payer.id, remove(), payer.key), hapi.ResponseCodeEnum_UNAUTHORIZED)
	id = &hapi.FileID{FileNum: 9_999}
	r.want(r.submit(payer.id, remove(), payer.key), hapi.ResponseCodeEnum_INVALID_FILE_ID)
}

// The call data of an Ethereum transaction may be in a file, as hexadecimal text.
func TestCallDataInFile(t *testing.T) {
	r := newRig(t, Config{})
	payer, from := dev(t, 0), dev(t, 1)
	init := program.New().ReturnViaCodeCopy(returnTop(program.New().Push(42))).Bytes()
	put := func(text string) *hapi.FileID {
		rec := r.submit(payer.id, core.BodyOf(&hapi.FileCreateTransactionBody{Contents: []byte(text)}), payer.key)
		r.want(rec, okay)
		return &hapi.FileID{FileNum: rec.File.Num}
	}
	send := func(file *hapi.FileID) *history.Record {
		// What is signed has the data; what is sent has not.
		full := dynamic(0, nil, 0, 1_000_000, init)
		body := ethereumBody(t, from, full, 0).GetEthereumTransaction()
		signed, _ := evm.ParseEthereum(body.EthereumData)
		bare, ok := evm.WithCallData(signed, nil)
		if !ok {
			t.Fatal("encode")
		}
		return r.submit(payer.id, core.BodyOf(&hapi.EthereumTransactionBody{EthereumData: bare, CallData: file}), payer.key)
	}
	missing := send(&hapi.FileID{FileNum: 9_999})
	r.want(missing, hapi.ResponseCodeEnum_INVALID_FILE_ID)
	if missing.Result != nil {
		t.Errorf("result %+v", missing.Result)
	}
	r.want(send(put("")), hapi.ResponseCodeEnum_CONTRACT_FILE_EMPTY)
	r.want(send(put("no hex")), hapi.ResponseCodeEnum_ERROR_DECODING_BYTESTRING)
	rec := send(put(hex.EncodeToString(init)))
	r.want(rec, okay)
	want := ethereumBody(t, from, dynamic(0, nil, 0, 1_000_000, init), 0).GetEthereumTransaction().EthereumData
	if rec.EthereumHash != crypto.Keccak256Hash(want) || rec.Result.From != from.id {
		t.Errorf("record %+v", rec)
	}
	if a, _ := r.View().Account(rec.ContractID); a.Contract == nil || a.Contract.File.Num != 1044 {
		t.Errorf("contract %+v", a.Contract)
	}
}

func TestContractsByHAPI(t *testing.T) {
	r := newRig(t, Config{})
	payer := dev(t, 0)
	admin := publicKey(payer)
	// The constructor stores its own code size (nothing yet), its value and its caller.
	runtime := returnTop(program.New().Push(1).Op(vm.SLOAD))
	init := program.New().Op(vm.ADDRESS, vm.EXTCODESIZE).Push(0).Op(vm.SSTORE).
		Op(vm.CALLVALUE).Push(1).Op(vm.SSTORE).Op(vm.CALLER).Push(2).Op(vm.SSTORE).
		ReturnViaCodeCopy(runtime).Bytes()
	create := &hapi.ContractCreateTransactionBody{
		Gas: 1_000_000, InitialBalance: 77, AdminKey: admin, Memo: "c", AutoRenewPeriod: &hapi.Duration{Seconds: core.GenesisRenewal},
		InitcodeSource: &hapi.ContractCreateTransactionBody_Initcode{Initcode: init},
	}
	rec := r.submit(payer.id, core.BodyOf(create), payer.key)
	r.want(rec, okay)
	id := rec.ContractID
	a, ok := r.View().Account(id)
	if !ok || id.Num != 1042 || a.Address != id.LongZero() || a.Balance != 77 || a.Memo != "c" || !bytes.Equal(a.Contract.Runtime, runtime) ||
		a.Key.GetECDSASecp256K1() == nil || len(a.Alias) != 0 {
		t.Fatalf("contract %+v", a)
	}
	for slot, want := range map[int64]common.Hash{0: {}, 1: number(77), 2: common.BytesToHash(payer.address[:])} {
		if got := r.View().Storage(id, number(slot)).Value; got != want {
			t.Errorf("slot %d: %s, want %s", slot, got, want)
		}
	}
	if got := devaccounts.RichBalance - r.balance(payer.address); got != hedera.Tinybar(rec.Result.GasUsed)*price+77 || rec.Fee != got-77 {
		t.Errorf("paid %d for %d gas", got, rec.Result.GasUsed)
	}
	if root := rec.Result.Actions[0]; root.CallType != history.CallTypeCreate || root.From != payer.address || root.To != a.Address || root.Value != 77 {
		t.Errorf("action %+v", root)
	}

	call := func(target *hapi.ContractID, gas, amount int64) *history.Record {
		return r.submit(payer.id, core.BodyOf(&hapi.ContractCallTransactionBody{ContractID: target, Gas: gas, Amount: amount}), payer.key)
	}
	rec = call(id.ContractID(), 100_000, 0)
	r.want(rec, okay)
	if common.BytesToHash(rec.Result.Output) != number(77) || rec.Result.Raw != nil || rec.Result.SignerNonce != -1 {
		t.Errorf("result %+v", rec.Result)
	}
	r.want(call(hedera.Entity(9_999).ContractID(), 100_000, 0), hapi.ResponseCodeEnum_INVALID_CONTRACT_ID)
	r.want(call(id.ContractID(), evm.MaxGas+1, 0), hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED)
	r.want(call(id.ContractID(), 100_000, int64(devaccounts.RichBalance)), hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE)
	nobody := fresh(t, 3)
	r.want(call(&hapi.ContractID{Contract: &hapi.ContractID_EvmAddress{EvmAddress: nobody.address[:]}}, 700_000, 5), okay)
	if got := r.balance(nobody.address); got != 5 {
		t.Errorf("lazily created with %d", got)
	}
	if got := r.nonce(payer.address); got != 0 {
		t.Errorf("HAPI calls spent %d nonces", got)
	}

	// A creation that fails gives its number back.
	create.InitcodeSource = &hapi.ContractCreateTransactionBody_Initcode{Initcode: []byte{0xfe}}
	before := r.store.NextNum
	rec = r.submit(payer.id, core.BodyOf(create), payer.key)
	r.want(rec, hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION)
	if r.store.NextNum != before || !rec.ContractID.IsZero() {
		t.Errorf("next number %d after %d", r.store.NextNum, before)
	}
}

func TestDuplicateID(t *testing.T) {
	r := newRig(t, Config{})
	payer := dev(t, 0)
	id := hedera.TransactionID{Payer: payer.id, ValidStart: hedera.Timestamp{Seconds: 5}}
	body := func() *hapi.TransactionBody {
		return amounts(payer.id.AccountID(), -5, hedera.Entity(1003).AccountID(), 5)
	}
	first := r.Handle(r.submission(id, body(), payer.key))
	second := r.Handle(r.submission(id, body(), payer.key))
	r.want(first, okay)
	r.want(second, hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION)
	if got := r.View().RecordsByID(id); len(got) != 2 || got[0] != first || len(second.Transfers) != 0 {
		t.Errorf("records %v", got)
	}
}

// A bug in a handler costs one transaction, not the network.
func TestPanicIsContained(t *testing.T) {
	r := newRig(t, Config{})
	payer, hollow := dev(t, 0), fresh(t, 1)
	r.want(r.submit(payer.id, amounts(payer.id.AccountID(), -5, aliasID(hollow.address[:]), 5), payer.key), okay)
	a, _ := r.View().AccountByAddress(hollow.address)
	sub := r.submission(hedera.TransactionID{Payer: a.ID}, amounts(a.ID.AccountID(), -1, payer.id.AccountID(), 1))
	sub.Signatures = nil // no node lets this through
	rec := r.Handle(sub)
	r.want(rec, hapi.ResponseCodeEnum_FAIL_INVALID)
	if rec.Kind != history.KindCryptoTransfer || len(rec.Transfers) != 0 || r.balance(hollow.address) != 5 {
		t.Errorf("record %+v", rec)
	}
	r.want(r.submit(payer.id, amounts(payer.id.AccountID(), -5, a.ID.AccountID(), 5), payer.key), okay)
}

// judged is what node and consensus make of a transaction that each of the first five development accounts signs.
func (r *rig) judged(m proto.Message) hedera.Status {
	r.t.Helper()
	body := core.BodyOf(m)
	if status := r.PureCheck(body); status != okay {
		return status
	}
	return r.submit(dev(r.t, 0).id, body, dev(r.t, 0).key, dev(r.t, 1).key, dev(r.t, 2).key, dev(r.t, 3).key, dev(r.t, 4).key).Status
}

// verdict is a transaction and what becomes of it.
type verdict struct {
	name string
	of   proto.Message
	want hedera.Status
}

func (r *rig) judge(list []verdict) {
	r.t.Helper()
	for _, v := range list {
		if got := r.judged(v.of); got != v.want {
			r.t.Errorf("%s: %s, want %s", v.name, got, v.want)
		}
	}
}

// deletedAccount is the account of a development key that was deleted.
func (r *rig) deletedAccount() party {
	r.t.Helper()
	gone := r.account(dev(r.t, 4), func(*hapi.CryptoCreateTransactionBody) {})
	if got := r.judged(&hapi.CryptoDeleteTransactionBody{DeleteAccountID: gone.id.AccountID(), TransferAccountID: dev(r.t, 0).id.AccountID()}); got != okay {
		r.t.Fatal(got)
	}
	return gone
}

var (
	longMemo = strings.Repeat("m", 101)
	nobody   = &hapi.AccountID{Account: &hapi.AccountID_AccountNum{AccountNum: 0}}
	unknown  = hedera.Entity(9_999).AccountID()
)

func seconds(n int64) *hapi.Duration { return &hapi.Duration{Seconds: n} }

// after is a time so many seconds after what will be about now for consensus.
func (r *rig) after(n int64) *hapi.Timestamp {
	return &hapi.Timestamp{Seconds: r.Now().Unix() + n}
}

func TestAccountValidation(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	me, gone := owner.id.AccountID(), r.deletedAccount()
	key, endless := publicKey(owner), &hapi.Key{}
	for k, i := endless, 0; i < hapikey.MaxDepth+2; i++ {
		inner := &hapi.Key{}
		k.Key = &hapi.Key_KeyList{KeyList: &hapi.KeyList{Keys: []*hapi.Key{inner}}}
		k = inner
	}
	created := func(edit func(*hapi.CryptoCreateTransactionBody)) proto.Message {
		return create(func(b *hapi.CryptoCreateTransactionBody) { b.Key = key; edit(b) }).GetCryptoCreateAccount()
	}
	updated := func(b *hapi.CryptoUpdateTransactionBody) proto.Message {
		b.AccountIDToUpdate = me
		return b
	}
	slots := func(n int32) proto.Message {
		return updated(&hapi.CryptoUpdateTransactionBody{MaxAutomaticTokenAssociations: wrapperspb.Int32(n)})
	}
	r.judge([]verdict{
		{"a period of zero", created(func(b *hapi.CryptoCreateTransactionBody) { b.AutoRenewPeriod = seconds(0) }), hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD},
		{"a short period", created(func(b *hapi.CryptoCreateTransactionBody) { b.AutoRenewPeriod = seconds(2_591_999) }), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"a long period", created(func(b *hapi.CryptoCreateTransactionBody) { b.AutoRenewPeriod = seconds(8_000_002) }), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"-2 slots", created(func(b *hapi.CryptoCreateTransactionBody) { b.MaxAutomaticTokenAssociations = -2 }), hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS},
		{"5,001 slots", created(func(b *hapi.CryptoCreateTransactionBody) { b.MaxAutomaticTokenAssociations = 5_001 }), hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS},
		{"a long memo", created(func(b *hapi.CryptoCreateTransactionBody) { b.Memo = longMemo }), hapi.ResponseCodeEnum_MEMO_TOO_LONG},
		{"a short key", created(func(b *hapi.CryptoCreateTransactionBody) { b.Key = hapikey.Ed25519([]byte{1}) }), hapi.ResponseCodeEnum_INVALID_ADMIN_KEY},
		{"a key without end", created(func(b *hapi.CryptoCreateTransactionBody) { b.Key = endless }), hapi.ResponseCodeEnum_INVALID_ADMIN_KEY},
		{"a balance above the supply", created(func(b *hapi.CryptoCreateTransactionBody) { b.InitialBalance = uint64(state.TotalSupply) + 1 }), hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE},
		{"a balance that is none", created(func(b *hapi.CryptoCreateTransactionBody) { b.InitialBalance = math.MaxInt64 + 1 }), hapi.ResponseCodeEnum_INVALID_INITIAL_BALANCE},
		{"a stake to nobody", created(func(b *hapi.CryptoCreateTransactionBody) {
			b.StakedId = &hapi.CryptoCreateTransactionBody_StakedAccountId{StakedAccountId: nobody}
		}), hapi.ResponseCodeEnum_INVALID_STAKING_ID},
		{"a stake to node -1", created(func(b *hapi.CryptoCreateTransactionBody) {
			b.StakedId = &hapi.CryptoCreateTransactionBody_StakedNodeId{StakedNodeId: -1}
		}), hapi.ResponseCodeEnum_INVALID_STAKING_ID},

		{"update of no account", &hapi.CryptoUpdateTransactionBody{}, hapi.ResponseCodeEnum_ACCOUNT_ID_DOES_NOT_EXIST},
		{"update until now", updated(&hapi.CryptoUpdateTransactionBody{ExpirationTime: r.after(-1)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update for more than 100 years", updated(&hapi.CryptoUpdateTransactionBody{ExpirationTime: r.after(core.MaxLifetime + 100)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update to an earlier end", updated(&hapi.CryptoUpdateTransactionBody{ExpirationTime: r.after(1_000)}), hapi.ResponseCodeEnum_EXPIRATION_REDUCTION_NOT_ALLOWED},
		{"update to a later end", updated(&hapi.CryptoUpdateTransactionBody{ExpirationTime: r.after(core.MaxLifetime - 100)}), okay},
		{"update, short period", updated(&hapi.CryptoUpdateTransactionBody{AutoRenewPeriod: seconds(1)}), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"update, long memo", updated(&hapi.CryptoUpdateTransactionBody{Memo: wrapperspb.String(longMemo)}), hapi.ResponseCodeEnum_MEMO_TOO_LONG},
		{"update, -2 slots", slots(-2), hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS},
		{"update, 5,001 slots", slots(5_001), hapi.ResponseCodeEnum_REQUESTED_NUM_AUTOMATIC_ASSOCIATIONS_EXCEEDS_ASSOCIATION_LIMIT},
		{"update, unlimited slots", slots(-1), okay},
		{"update, no stake", updated(&hapi.CryptoUpdateTransactionBody{StakedId: &hapi.CryptoUpdateTransactionBody_StakedAccountId{StakedAccountId: nobody}}), okay},

		{"deletion in its own favour", &hapi.CryptoDeleteTransactionBody{DeleteAccountID: me, TransferAccountID: me}, hapi.ResponseCodeEnum_TRANSFER_ACCOUNT_SAME_AS_DELETE_ACCOUNT},
		{"transfer from a deleted account", amounts(gone.id.AccountID(), -1, me, 1).GetCryptoTransfer(), hapi.ResponseCodeEnum_ACCOUNT_DELETED},
		{"transfer of more than there is", amounts(me, -math.MaxInt64, dev(t, 1).id.AccountID(), math.MaxInt64).GetCryptoTransfer(), hapi.ResponseCodeEnum_INSUFFICIENT_ACCOUNT_BALANCE},
		{"transfer to oneself", amounts(me, -1, me, 1).GetCryptoTransfer(), hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS},
	})
}

func TestFileValidation(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	made := func(until *hapi.Timestamp, memo string, keys ...*hapi.Key) *hapi.FileCreateTransactionBody {
		return &hapi.FileCreateTransactionBody{ExpirationTime: until, Memo: memo, Keys: &hapi.KeyList{Keys: keys}, Contents: []byte("x")}
	}
	until := r.after(3_000_000)
	rec := r.submit(owner.id, core.BodyOf(made(until, "", publicKey(fresh(t, 1)))), owner.key, fresh(t, 1).key)
	r.want(rec, okay)
	id := &hapi.FileID{FileNum: rec.File.Num}
	start := int64(1_700_000_000) // what transactions of the rig are valid from
	r.judge([]verdict{
		{"without an end", made(nil, ""), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"until now", made(r.after(0), ""), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"for more than 100 years", made(r.after(core.MaxLifetime+100), ""), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"a long memo", made(r.after(3_000_000), longMemo), hapi.ResponseCodeEnum_MEMO_TOO_LONG},
		{"of others, other contents", &hapi.FileUpdateTransactionBody{FileID: id, Contents: []byte("y")}, hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		{"of others, a later end", &hapi.FileUpdateTransactionBody{FileID: id, ExpirationTime: &hapi.Timestamp{Seconds: start + core.MaxRenewPeriod}}, okay},
		{"too short from its start", &hapi.FileUpdateTransactionBody{FileID: id, ExpirationTime: &hapi.Timestamp{Seconds: start + core.MinRenewPeriod - 1}}, hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"too long from its start", &hapi.FileUpdateTransactionBody{FileID: id, ExpirationTime: &hapi.Timestamp{Seconds: start + core.MaxRenewPeriod + 1}}, hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"an earlier end, which changes nothing", &hapi.FileUpdateTransactionBody{FileID: id, ExpirationTime: &hapi.Timestamp{Seconds: start + core.MinRenewPeriod}}, okay},
	})
	own := r.submit(owner.id, core.BodyOf(made(r.after(3_000_000), "", publicKey(owner))), owner.key)
	r.want(own, okay)
	r.judge([]verdict{{"update, long memo", &hapi.FileUpdateTransactionBody{
		FileID: &hapi.FileID{FileNum: own.File.Num}, Memo: wrapperspb.String(longMemo),
	}, hapi.ResponseCodeEnum_MEMO_TOO_LONG}})
	if f, _ := r.View().File(rec.File); f.Expires.Seconds != until.Seconds {
		t.Errorf("the file of others ends at %s", f.Expires)
	}
}

func TestContractValidation(t *testing.T) {
	r := newRig(t, Config{})
	owner, gone := dev(t, 0), r.deletedAccount()
	me := owner.id.AccountID()
	code := program.New().ReturnViaCodeCopy([]byte{byte(vm.STOP)}).Bytes()
	made := func(edit func(*hapi.ContractCreateTransactionBody)) *hapi.ContractCreateTransactionBody {
		b := &hapi.ContractCreateTransactionBody{
			Gas: 500_000, AutoRenewPeriod: seconds(core.GenesisRenewal), AdminKey: publicKey(owner),
			InitcodeSource: &hapi.ContractCreateTransactionBody_Initcode{Initcode: code},
		}
		edit(b)
		return b
	}
	contract := func() *hapi.ContractID {
		rec := r.submit(owner.id, core.BodyOf(made(func(b *hapi.ContractCreateTransactionBody) {
			b.AutoRenewAccountId = dev(t, 1).id.AccountID()
			b.StakedId = &hapi.ContractCreateTransactionBody_StakedNodeId{StakedNodeId: 0}
		})), owner.key, dev(t, 1).key)
		r.want(rec, okay)
		return rec.ContractID.ContractID()
	}
	id, dead := contract(), contract()
	r.judge([]verdict{{"deletion", &hapi.ContractDeleteTransactionBody{ContractID: dead, Obtainers: &hapi.ContractDeleteTransactionBody_TransferAccountID{TransferAccountID: me}}, okay}})
	updated := func(b *hapi.ContractUpdateTransactionBody) proto.Message {
		b.ContractID = id
		return b
	}
	deletedFor := func(of *hapi.ContractID, account *hapi.AccountID, contract *hapi.ContractID) proto.Message {
		b := &hapi.ContractDeleteTransactionBody{ContractID: of}
		switch {
		case account != nil:
			b.Obtainers = &hapi.ContractDeleteTransactionBody_TransferAccountID{TransferAccountID: account}
		case contract != nil:
			b.Obtainers = &hapi.ContractDeleteTransactionBody_TransferContractID{TransferContractID: contract}
		}
		return b
	}
	r.judge([]verdict{
		{"no code", made(func(b *hapi.ContractCreateTransactionBody) {
			b.InitcodeSource = &hapi.ContractCreateTransactionBody_Initcode{}
		}), hapi.ResponseCodeEnum_CONTRACT_BYTECODE_EMPTY},
		{"no source of code", made(func(b *hapi.ContractCreateTransactionBody) { b.InitcodeSource = nil }), hapi.ResponseCodeEnum_INVALID_FILE_ID},
		{"no period", made(func(b *hapi.ContractCreateTransactionBody) { b.AutoRenewPeriod = nil }), hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD},
		{"a short period", made(func(b *hapi.ContractCreateTransactionBody) { b.AutoRenewPeriod = seconds(1) }), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"-2 slots", made(func(b *hapi.ContractCreateTransactionBody) { b.MaxAutomaticTokenAssociations = -2 }), hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS},
		{"5,001 slots", made(func(b *hapi.ContractCreateTransactionBody) { b.MaxAutomaticTokenAssociations = 5_001 }), hapi.ResponseCodeEnum_REQUESTED_NUM_AUTOMATIC_ASSOCIATIONS_EXCEEDS_ASSOCIATION_LIMIT},
		{"a long memo", made(func(b *hapi.ContractCreateTransactionBody) { b.Memo = longMemo }), hapi.ResponseCodeEnum_MEMO_TOO_LONG},
		{"a deleted renewer", made(func(b *hapi.ContractCreateTransactionBody) { b.AutoRenewAccountId = gone.id.AccountID() }), hapi.ResponseCodeEnum_INVALID_AUTORENEW_ACCOUNT},
		{"a renewer who has not signed", made(func(b *hapi.ContractCreateTransactionBody) { b.AutoRenewAccountId = dev(t, 9).id.AccountID() }), hapi.ResponseCodeEnum_INVALID_SIGNATURE},

		{"update until now", updated(&hapi.ContractUpdateTransactionBody{ExpirationTime: r.after(-1)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update for more than 100 years", updated(&hapi.ContractUpdateTransactionBody{ExpirationTime: r.after(core.MaxLifetime + 100)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update to an earlier end", updated(&hapi.ContractUpdateTransactionBody{ExpirationTime: r.after(100)}), hapi.ResponseCodeEnum_EXPIRATION_REDUCTION_NOT_ALLOWED},
		{"update, -2 slots", updated(&hapi.ContractUpdateTransactionBody{MaxAutomaticTokenAssociations: wrapperspb.Int32(-2)}), hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS},
		{"update, no renewer", updated(&hapi.ContractUpdateTransactionBody{AutoRenewAccountId: nobody}), okay},
		{"update, no stake", updated(&hapi.ContractUpdateTransactionBody{StakedId: &hapi.ContractUpdateTransactionBody_StakedAccountId{StakedAccountId: nobody}}), okay},
		{"update of a deleted one", &hapi.ContractUpdateTransactionBody{ContractID: dead, ExpirationTime: r.after(9_000_000)}, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID},

		{"deletion for nobody", deletedFor(id, nil, nil), hapi.ResponseCodeEnum_OBTAINER_REQUIRED},
		{"deletion for an empty id", deletedFor(id, &hapi.AccountID{}, nil), hapi.ResponseCodeEnum_OBTAINER_DOES_NOT_EXIST},
		{"deletion for a missing account", deletedFor(id, unknown, nil), hapi.ResponseCodeEnum_INVALID_TRANSFER_ACCOUNT_ID},
		{"deletion for a deleted account", deletedFor(id, gone.id.AccountID(), nil), hapi.ResponseCodeEnum_OBTAINER_DOES_NOT_EXIST},
		{"deletion for a deleted contract", deletedFor(id, nil, dead), hapi.ResponseCodeEnum_INVALID_CONTRACT_ID},
		{"deletion for itself", deletedFor(id, nil, id), hapi.ResponseCodeEnum_OBTAINER_SAME_CONTRACT_ID},
		{"deletion of a deleted one", deletedFor(dead, me, nil), hapi.ResponseCodeEnum_CONTRACT_DELETED},
	})
	a, _ := r.View().Account(hedera.Entity(id.GetContractNum()))
	if !a.AutoRenewAccount.IsZero() || a.StakedNode != -1 {
		t.Errorf("renewed by %s, staked to %d", a.AutoRenewAccount, a.StakedNode)
	}
}

func TestTokenValidation(t *testing.T) {
	r := newRig(t, Config{})
	owner, holder := dev(t, 0), dev(t, 1)
	gone, me, you := r.deletedAccount(), owner.id.AccountID(), holder.id.AccountID()
	withKYC := func(b *hapi.TokenCreateTransactionBody) { b.KycKey = publicKey(owner) }
	coin, art := r.fungibleToken(owner, nil), r.collection(owner, 3, nil)
	fixed := r.fungibleToken(owner, func(b *hapi.TokenCreateTransactionBody) { b.AdminKey = nil })
	guarded, paused := r.fungibleToken(owner, withKYC), r.fungibleToken(owner, nil)
	r.associated(holder, coin, art, guarded, paused)
	made := func(edit func(*hapi.TokenCreateTransactionBody)) proto.Message {
		b := &hapi.TokenCreateTransactionBody{Name: "N", Symbol: "S", Treasury: me}
		edit(b)
		return b
	}
	updated := func(token hedera.ID, b *hapi.TokenUpdateTransactionBody) proto.Message {
		b.Token = token.TokenID()
		return b
	}
	freeze := func(token hedera.ID, who *hapi.AccountID) proto.Message {
		return &hapi.TokenFreezeAccountTransactionBody{Token: token.TokenID(), Account: who}
	}
	thaw := func(token hedera.ID, who *hapi.AccountID) proto.Message {
		return &hapi.TokenUnfreezeAccountTransactionBody{Token: token.TokenID(), Account: who}
	}
	spend := func(token hedera.ID, amount int64) proto.Message {
		return &hapi.CryptoApproveAllowanceTransactionBody{TokenAllowances: []*hapi.TokenAllowance{{TokenId: token.TokenID(), Owner: me, Spender: you, Amount: amount}}}
	}
	r.judge([]verdict{
		{"for 100 years", made(func(b *hapi.TokenCreateTransactionBody) { b.Expiry = r.after(core.MaxLifetime + 100) }), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"until now", made(func(b *hapi.TokenCreateTransactionBody) { b.Expiry = r.after(-1) }), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"a short period", made(func(b *hapi.TokenCreateTransactionBody) { b.AutoRenewPeriod = seconds(1) }), hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD},
		{"a renewer without a period", made(func(b *hapi.TokenCreateTransactionBody) { b.AutoRenewAccount = me }), hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD},
		{"a deleted renewer", made(func(b *hapi.TokenCreateTransactionBody) {
			b.AutoRenewAccount, b.AutoRenewPeriod = gone.id.AccountID(), seconds(core.GenesisRenewal)
		}), hapi.ResponseCodeEnum_INVALID_AUTORENEW_ACCOUNT},
		{"a deleted treasury", made(func(b *hapi.TokenCreateTransactionBody) { b.Treasury = gone.id.AccountID() }), hapi.ResponseCodeEnum_INVALID_TREASURY_ACCOUNT_FOR_TOKEN},
		{"a missing treasury", made(func(b *hapi.TokenCreateTransactionBody) { b.Treasury = unknown }), hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID},
		{"a deleted collector", made(func(b *hapi.TokenCreateTransactionBody) {
			b.CustomFees = []*hapi.CustomFee{{FeeCollectorAccountId: gone.id.AccountID(), Fee: &hapi.CustomFee_FixedFee{FixedFee: &hapi.FixedFee{Amount: 1}}}}
		}), hapi.ResponseCodeEnum_INVALID_CUSTOM_FEE_COLLECTOR},

		{"pausing", &hapi.TokenPauseTransactionBody{Token: paused.TokenID()}, okay},
		{"allowance of a paused token", spend(paused, 5), okay},
		{"immutable, although the name is too long", updated(fixed, &hapi.TokenUpdateTransactionBody{Name: longMemo}), hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE},
		{"a key that is none", updated(coin, &hapi.TokenUpdateTransactionBody{SupplyKey: hapikey.Ed25519([]byte{1})}), hapi.ResponseCodeEnum_INVALID_SUPPLY_KEY},
		{"a long name", updated(coin, &hapi.TokenUpdateTransactionBody{Name: longMemo}), hapi.ResponseCodeEnum_TOKEN_NAME_TOO_LONG},
		{"an earlier end", updated(coin, &hapi.TokenUpdateTransactionBody{Expiry: r.after(100)}), hapi.ResponseCodeEnum_EXPIRATION_REDUCTION_NOT_ALLOWED},
		{"an end that is over", updated(coin, &hapi.TokenUpdateTransactionBody{Expiry: r.after(-100)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"a treasury that is deleted", updated(coin, &hapi.TokenUpdateTransactionBody{Treasury: gone.id.AccountID()}), hapi.ResponseCodeEnum_ACCOUNT_DELETED},
		{"the treasury of a token with KYC", updated(guarded, &hapi.TokenUpdateTransactionBody{Treasury: you}), okay},

		{"metadata mint no coins", &hapi.TokenMintTransactionBody{Token: coin.TokenID(), Metadata: [][]byte{{1}}}, okay},
		{"an amount mints no NFT", &hapi.TokenMintTransactionBody{Token: art.TokenID(), Amount: 1}, hapi.ResponseCodeEnum_INVALID_TOKEN_MINT_METADATA},
		{"serials burn no coins", &hapi.TokenBurnTransactionBody{Token: coin.TokenID(), SerialNumbers: []int64{1}}, okay},
		{"an amount burns no NFT", &hapi.TokenBurnTransactionBody{Token: art.TokenID(), Amount: 1}, hapi.ResponseCodeEnum_INVALID_TOKEN_BURN_METADATA},
		{"both", &hapi.TokenBurnTransactionBody{Token: art.TokenID(), Amount: 1, SerialNumbers: []int64{1}}, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		{"serial 0", &hapi.TokenBurnTransactionBody{Token: art.TokenID(), SerialNumbers: []int64{0}}, hapi.ResponseCodeEnum_INVALID_NFT_ID},
		{"more than there is", &hapi.TokenBurnTransactionBody{Token: coin.TokenID(), Amount: 1001}, hapi.ResponseCodeEnum_INVALID_TOKEN_BURN_AMOUNT},
		{"one burnt twice", &hapi.TokenBurnTransactionBody{Token: art.TokenID(), SerialNumbers: []int64{3, 3}}, okay},
		{"wiping nothing", &hapi.TokenWipeAccountTransactionBody{Token: coin.TokenID(), Account: you}, okay},

		{"freezing the treasury", freeze(art, me), okay},
		{"burning in it", &hapi.TokenBurnTransactionBody{Token: art.TokenID(), SerialNumbers: []int64{2}}, hapi.ResponseCodeEnum_ACCOUNT_FROZEN_FOR_TOKEN},
		{"thawing it", thaw(art, me), okay},
		{"freezing a holder", freeze(guarded, me), okay},
		{"freezing it again", freeze(guarded, me), hapi.ResponseCodeEnum_ACCOUNT_FROZEN_FOR_TOKEN},
		{"KYC for it", &hapi.TokenGrantKycTransactionBody{Token: guarded.TokenID(), Account: me}, hapi.ResponseCodeEnum_ACCOUNT_FROZEN_FOR_TOKEN},
		{"KYC without a key for it", &hapi.TokenGrantKycTransactionBody{Token: paused.TokenID(), Account: me}, hapi.ResponseCodeEnum_TOKEN_HAS_NO_KYC_KEY},

		{"an NFT to oneself", core.BodyOf(&hapi.CryptoTransferTransactionBody{TokenTransfers: []*hapi.TokenTransferList{nftGift(art, me, me, 1)}}).GetCryptoTransfer(), hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS},
		{"an NFT twice", &hapi.CryptoTransferTransactionBody{TokenTransfers: []*hapi.TokenTransferList{nftGift(art, me, you, 1, 1)}}, hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS},
		{"rejection by a deleted account", reject(gone.id.AccountID(), rejectedTokenOf(coin.TokenID())).GetTokenReject(), hapi.ResponseCodeEnum_ACCOUNT_DELETED},
		{"rejection by nobody", reject(unknown, rejectedTokenOf(coin.TokenID())).GetTokenReject(), hapi.ResponseCodeEnum_INVALID_OWNER_ID},
		{"claim of a deleted account", claim(&hapi.PendingAirdropId{
			SenderId: me, ReceiverId: gone.id.AccountID(), TokenReference: &hapi.PendingAirdropId_FungibleTokenType{FungibleTokenType: coin.TokenID()},
		}).GetTokenClaimAirdrop(), hapi.ResponseCodeEnum_INVALID_PENDING_AIRDROP_ID},
	})

	// Nobody pays a fee to a collector that is gone.
	collector := r.account(dev(t, 3), func(*hapi.CryptoCreateTransactionBody) {})
	charged := r.fungibleToken(owner, func(b *hapi.TokenCreateTransactionBody) {
		b.CustomFees = []*hapi.CustomFee{{FeeCollectorAccountId: collector.id.AccountID(), Fee: &hapi.CustomFee_FixedFee{FixedFee: &hapi.FixedFee{Amount: 1}}}}
	})
	third := dev(t, 2)
	r.associated(holder, charged)
	r.associated(third, charged)
	r.judge([]verdict{
		{"a gift of the treasury", units(charged, me, -10, you, 10).GetCryptoTransfer(), okay},
		{"deletion of the collector", &hapi.CryptoDeleteTransactionBody{DeleteAccountID: collector.id.AccountID(), TransferAccountID: me}, okay},
		{"a transfer with its fee", units(charged, you, -1, third.id.AccountID(), 1).GetCryptoTransfer(), hapi.ResponseCodeEnum_ACCOUNT_DELETED},
	})
}

// Whoever may transfer all NFTs of an owner may approve others for single ones, and the NFT says who did.
func TestDelegatedApproval(t *testing.T) {
	r := newRig(t, Config{})
	owner, agent, buyer := dev(t, 0), dev(t, 1), dev(t, 2)
	art := r.collection(owner, 1, nil)
	r.associated(buyer, art)
	approve := func(spender party, by *hapi.AccountID, all bool, serials ...int64) proto.Message {
		a := &hapi.NftAllowance{TokenId: art.TokenID(), Owner: owner.id.AccountID(), Spender: spender.id.AccountID(), DelegatingSpender: by, SerialNumbers: serials}
		if all {
			a.ApprovedForAll = wrapperspb.Bool(true)
		}
		return &hapi.CryptoApproveAllowanceTransactionBody{NftAllowances: []*hapi.NftAllowance{a}}
	}
	r.judge([]verdict{
		{"without being approved", approve(buyer, agent.id.AccountID(), false, 1), hapi.ResponseCodeEnum_DELEGATING_SPENDER_DOES_NOT_HAVE_APPROVE_FOR_ALL},
		{"for all", approve(agent, nil, true), okay},
		{"all for others", approve(buyer, agent.id.AccountID(), true), hapi.ResponseCodeEnum_DELEGATING_SPENDER_CANNOT_GRANT_APPROVE_FOR_ALL},
		{"one, named twice", approve(buyer, agent.id.AccountID(), false, 1, 1), okay},
	})
	if nft, _ := r.Handled().NFT(art, 1); nft.Spender != buyer.id || nft.Delegating != agent.id {
		t.Errorf("%s may transfer it, approved by %s", nft.Spender, nft.Delegating)
	}
	r.want(r.submit(owner.id, core.BodyOf(&hapi.CryptoTransferTransactionBody{TokenTransfers: []*hapi.TokenTransferList{nftGift(art, owner.id.AccountID(), buyer.id.AccountID(), 1)}}), owner.key), okay)
	if nft, _ := r.Handled().NFT(art, 1); !nft.Spender.IsZero() || !nft.Delegating.IsZero() {
		t.Errorf("after a transfer: %+v", nft)
	}
}

func TestTopicValidation(t *testing.T) {
	r := newRig(t, Config{})
	owner, collector := dev(t, 0), dev(t, 9)
	key := publicKey(owner)
	made := func(edit func(*hapi.ConsensusCreateTopicTransactionBody)) *hapi.ConsensusCreateTopicTransactionBody {
		b := &hapi.ConsensusCreateTopicTransactionBody{AdminKey: key, AutoRenewPeriod: seconds(core.GenesisRenewal)}
		edit(b)
		return b
	}
	fee := func(amount int64) *hapi.FixedCustomFee {
		return &hapi.FixedCustomFee{FeeCollectorAccountId: collector.id.AccountID(), FixedFee: &hapi.FixedFee{Amount: amount}}
	}
	rec := r.submit(owner.id, core.BodyOf(made(func(b *hapi.ConsensusCreateTopicTransactionBody) {
		b.AutoRenewAccount = owner.id.AccountID()
		b.CustomFees = []*hapi.FixedCustomFee{fee(3), fee(4)}
	})), owner.key)
	r.want(rec, okay)
	id := &hapi.TopicID{TopicNum: rec.Did().Topic.Num}
	updated := func(b *hapi.ConsensusUpdateTopicTransactionBody) proto.Message {
		b.TopicID = id
		return b
	}
	r.judge([]verdict{
		{"a period of zero", made(func(b *hapi.ConsensusCreateTopicTransactionBody) { b.AutoRenewPeriod = seconds(0) }), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"a key twice", made(func(b *hapi.ConsensusCreateTopicTransactionBody) { b.FeeExemptKeyList = []*hapi.Key{key, key} }), hapi.ResponseCodeEnum_FEE_EXEMPT_KEY_LIST_CONTAINS_DUPLICATED_KEYS},
		{"an exempt key that is none", made(func(b *hapi.ConsensusCreateTopicTransactionBody) {
			b.FeeExemptKeyList = []*hapi.Key{hapikey.Ed25519([]byte{1})}
		}), hapi.ResponseCodeEnum_INVALID_KEY_IN_FEE_EXEMPT_KEY_LIST},
		{"update until now", updated(&hapi.ConsensusUpdateTopicTransactionBody{ExpirationTime: r.after(-1)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update for more than 100 years", updated(&hapi.ConsensusUpdateTopicTransactionBody{ExpirationTime: r.after(core.MaxLifetime + 100)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update to an earlier end", updated(&hapi.ConsensusUpdateTopicTransactionBody{ExpirationTime: r.after(100)}), hapi.ResponseCodeEnum_EXPIRATION_REDUCTION_NOT_ALLOWED},
		{"no admin, but a renewer", updated(&hapi.ConsensusUpdateTopicTransactionBody{AdminKey: hapikey.Hollow()}), hapi.ResponseCodeEnum_AUTORENEW_ACCOUNT_NOT_ALLOWED},
	})
	for _, tt := range []struct {
		name   string
		limits []*hapi.FixedFee
		want   hedera.Status
	}{
		{"the sum of the fees", []*hapi.FixedFee{{Amount: 7}}, okay},
		{"one fee of two", []*hapi.FixedFee{{Amount: 4}}, hapi.ResponseCodeEnum_MAX_CUSTOM_FEE_LIMIT_EXCEEDED},
		{"in another token", []*hapi.FixedFee{{Amount: 7, DenominatingTokenId: hedera.Entity(7).TokenID()}}, hapi.ResponseCodeEnum_NO_VALID_MAX_CUSTOM_FEE},
		{"twice the same", []*hapi.FixedFee{{Amount: 7}, {Amount: 8}}, hapi.ResponseCodeEnum_DUPLICATE_DENOMINATION_IN_MAX_CUSTOM_FEE_LIST},
		{"nothing", nil, hapi.ResponseCodeEnum_INVALID_MAX_CUSTOM_FEES},
	} {
		limits := []*hapi.CustomFeeLimit{{AccountId: owner.id.AccountID(), Fees: tt.limits}}
		body := core.BodyOf(&hapi.ConsensusSubmitMessageTransactionBody{TopicID: id, Message: []byte("m")})
		body.MaxCustomFees = limits
		status := r.PureCheck(body)
		if status == okay {
			status = r.submit(owner.id, body, owner.key).Status
		}
		if status != tt.want {
			t.Errorf("limits, %s: %s, want %s", tt.name, status, tt.want)
		}
		other := amounts(owner.id.AccountID(), -1, collector.id.AccountID(), 1)
		if other.MaxCustomFees = limits; r.PureCheck(other) != hapi.ResponseCodeEnum_MAX_CUSTOM_FEES_IS_NOT_SUPPORTED {
			t.Errorf("limits of a transfer: %s", r.PureCheck(other))
		}
	}
}

// A schedule may have a payer that is gone; it fails at its turn.
func TestScheduleOfADeletedPayer(t *testing.T) {
	r := newRig(t, Config{})
	owner, gone := dev(t, 0), r.deletedAccount()
	rec := r.schedule(owner, &scheduleBody{ScheduledTransactionBody: scheduledTransfer(owner.id, dev(t, 1).id, 1), PayerAccountID: gone.id.AccountID()}, gone.key)
	r.want(rec, okay)
	if done := r.executed(rec); done == nil || done.Status != hapi.ResponseCodeEnum_PAYER_ACCOUNT_DELETED {
		t.Errorf("executed as %+v", done)
	}
}
