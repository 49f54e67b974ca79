package ledger

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/files"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
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
