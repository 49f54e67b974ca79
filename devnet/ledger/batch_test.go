package ledger

import (
	"crypto/ecdsa"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// inner signs a transaction for a batch: it names the key that must agree to it, and no node.
func (r *rig) inner(payer party, batchKey *hapi.Key, body *hapi.TransactionBody, keys ...*ecdsa.PrivateKey) []byte {
	r.t.Helper()
	r.start++
	body = proto.CloneOf(body)
	start := r.Now().Add(-time.Minute)
	body.TransactionID = &hapi.TransactionID{
		AccountID: payer.id.AccountID(), TransactionValidStart: &hapi.Timestamp{Seconds: start.Unix(), Nanos: r.start},
	}
	body.NodeAccountID, body.BatchKey = hedera.ID{}.AccountID(), batchKey
	body.TransactionValidDuration = &hapi.Duration{Seconds: 120}
	raw, pairs := r.signed(body, append(keys, payer.key)...)
	return core.Marshal(&hapi.SignedTransaction{BodyBytes: raw, SigMap: &hapi.SignatureMap{SigPair: pairs}})
}

func batchOf(list ...[]byte) *hapi.TransactionBody {
	return core.BodyOf(&hapi.AtomicBatchTransactionBody{Transactions: list})
}

// innerID is the transaction id of an inner transaction.
func innerID(t *testing.T, inner []byte) hedera.TransactionID {
	t.Helper()
	sub, status := innerOf(inner)
	if status != okay {
		t.Fatal(status)
	}
	return sub.ID
}

// scenery is what batches of these tests work on.
type scenery struct {
	*rig
	owner, other, relayer party
	token                 hedera.ID
	storing               party // a contract that keeps its call data in slot 0
}

func newScenery(t *testing.T) *scenery {
	t.Helper()
	s := &scenery{rig: newRig(t, Config{}), owner: dev(t, 0), other: dev(t, 1), relayer: dev(t, 9)}
	s.token = s.fungibleToken(s.owner, nil)
	s.associated(s.other, s.token)
	s.storing.address = s.deploy(dev(t, 3), 0, program.New().Push(0).Op(vm.CALLDATALOAD).Push(0).Op(vm.SSTORE).Bytes())
	return s
}

// steps is a transaction of every sort: an account that comes into being, hbar, a token, a
// file, and a call of a contract with value.
func (s *scenery) steps(key *hapi.Key) [][]byte {
	s.t.Helper()
	stranger := fresh(s.t, 5)
	data := number(9)
	call := ethereumBody(s.t, s.other, dynamic(uint64(s.nonce(s.other.address)), &s.storing.address, 0, 100_000, data[:]), 0)
	return [][]byte{
		s.inner(s.owner, key, amounts(s.owner.id.AccountID(), -50, aliasID(stranger.address[:]), 50)),
		s.inner(s.owner, key, units(s.token, s.owner.id.AccountID(), -20, s.other.id.AccountID(), 20)),
		s.inner(s.other, key, units(s.token, s.other.id.AccountID(), -5, s.owner.id.AccountID(), 5)),
		s.inner(s.owner, key, core.BodyOf(&hapi.FileCreateTransactionBody{
			ExpirationTime: &hapi.Timestamp{Seconds: 4_000_000_000},
			Contents:       []byte("kept"), Keys: &hapi.KeyList{Keys: []*hapi.Key{publicKey(s.owner)}},
		})),
		s.inner(s.relayer, key, call),
	}
}

// told is what readers can see of what the steps do.
func (s *scenery) told() map[string]int64 {
	files := int64(0)
	for num, f := range s.store.World.Files {
		if num > state.LastSystemCode && string(f.Contents) == "kept" {
			files++
		}
	}
	_, made := s.Handled().AccountByAddress(fresh(s.t, 5).address)
	contract, _ := s.Handled().Resolve(s.storing.address)
	created := int64(0)
	if made {
		created = 1
	}
	return map[string]int64{
		"owner": s.held(s.owner.id, s.token), "other": s.held(s.other.id, s.token), "files": files, "made": created,
		"stored": s.Handled().Storage(contract, number(0)).Value.Big().Int64(), "nonce": s.nonce(s.other.address),
		"hbar": int64(s.balance(s.owner.address)), "next": s.store.NextNum,
	}
}

func TestBatch(t *testing.T) {
	s := newScenery(t)
	key := publicKey(s.other)
	before := s.told()
	list := s.steps(key)
	rec := s.submit(s.owner.id, batchOf(list...), s.owner.key, s.other.key)
	s.want(rec, okay)
	want := map[string]int64{
		"owner": 985, "other": 15, "files": 1, "made": 1, "stored": 9, "nonce": before["nonce"] + 1,
		"hbar": before["hbar"] - 50, "next": before["next"] + 2,
	}
	if diff := cmp.Diff(want, s.told()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	last := rec.Consensus
	kinds := []history.Kind{history.KindCryptoTransfer, history.KindCryptoTransfer, history.KindCryptoTransfer, history.KindFileCreate, history.KindEthereum}
	for i, inner := range list {
		found := s.Handled().RecordsByID(innerID(t, inner))
		top := slices.DeleteFunc(slices.Clone(found), (*history.Record).IsChild)
		if len(top) != 1 || top[0].Kind != kinds[i] || top[0].Status != okay || top[0].Batch != rec.Consensus || !proto.Equal(top[0].BatchKey, key) {
			t.Fatalf("%d: %+v", i, top)
		}
		if top[0].Consensus.Compare(last) <= 0 || top[0].Block != rec.Block {
			t.Errorf("%d: at %s in block %d, the one before at %s", i, top[0].Consensus, top[0].Block, last)
		}
		last = top[0].Consensus
		if i == 0 && len(found) != 2 { // the creation of the account stands before it
			t.Errorf("records %v", found)
		}
	}
	s.checkSupply(s.token)
	// What was handled is not handled again, in a batch or by itself.
	s.want(s.submit(s.owner.id, batchOf(list[1]), s.owner.key, s.other.key), hapi.ResponseCodeEnum_INNER_TRANSACTION_FAILED)
	if found := s.Handled().RecordsByID(innerID(t, list[1])); len(found) != 2 || found[1].Status != hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION {
		t.Errorf("%+v", found)
	}
}

// One inner transaction that fails takes back all that the others did.
func TestBatchFailsWhole(t *testing.T) {
	s := newScenery(t)
	before := s.told()
	list := s.steps(publicKey(s.owner))
	list = append(list, s.inner(s.owner, publicKey(s.owner), units(s.token, s.owner.id.AccountID(), -9_999, s.other.id.AccountID(), 9_999)),
		s.inner(s.owner, publicKey(s.owner), amounts(s.owner.id.AccountID(), -1, s.other.id.AccountID(), 1)))
	rec := s.submit(s.owner.id, batchOf(list...), s.owner.key)
	s.want(rec, hapi.ResponseCodeEnum_INNER_TRANSACTION_FAILED)
	if diff := cmp.Diff(before, s.told()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for i, inner := range list {
		want := []hedera.Status{hapi.ResponseCodeEnum_REVERTED_SUCCESS}
		switch i {
		case 5:
			want[0] = hapi.ResponseCodeEnum_INSUFFICIENT_TOKEN_BALANCE
		case 6:
			want = nil // it was not handled
		}
		var got []hedera.Status
		for _, r := range s.Handled().RecordsByID(innerID(t, inner)) {
			got = append(got, r.Status)
			if len(r.Transfers) != 0 || len(r.Did().Tokens) != 0 || len(r.Logs()) != 0 {
				t.Errorf("%d tells of what was taken back: %+v", i, r)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
	}
	// The chain goes on as if nothing had been: numbers, nonces and addresses are free.
	s.want(s.submit(s.owner.id, batchOf(s.steps(publicKey(s.owner))...), s.owner.key), okay)
	s.checkSupply(s.token)
	if total, _ := s.View().Supply(); total != state.TotalSupply {
		t.Errorf("%d tinybar", total)
	}
}

// What a batch may get wrong, and who must sign.
func TestBatchRefusals(t *testing.T) {
	s := newScenery(t)
	mine, pay := publicKey(s.owner), amounts(s.owner.id.AccountID(), -1, s.other.id.AccountID(), 1)
	one := s.inner(s.owner, mine, pay)
	addressed := proto.CloneOf(pay)
	addressed.NodeAccountID, addressed.BatchKey = hedera.Entity(3).AccountID(), mine
	addressed.TransactionID = &hapi.TransactionID{AccountID: s.owner.id.AccountID(), TransactionValidStart: &hapi.Timestamp{Seconds: 1}}
	many := make([][]byte, maxBatch+1)
	for i := range many {
		many[i] = s.inner(s.owner, mine, pay)
	}
	foreign := amounts(s.other.id.AccountID(), -1, s.owner.id.AccountID(), 1)
	for name, tt := range map[string]struct {
		list  [][]byte
		pure  hedera.Status
		want  hedera.Status
		inner hedera.Status
	}{
		"nothing":              {pure: hapi.ResponseCodeEnum_BATCH_LIST_EMPTY},
		"twice":                {list: [][]byte{one, one}, pure: hapi.ResponseCodeEnum_BATCH_LIST_CONTAINS_DUPLICATES},
		"without a key":        {list: [][]byte{s.inner(s.owner, nil, pay)}, pure: hapi.ResponseCodeEnum_MISSING_BATCH_KEY},
		"for a node":           {list: [][]byte{core.Marshal(&hapi.SignedTransaction{BodyBytes: core.Marshal(addressed)})}, pure: hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT_ID},
		"nonsense":             {list: [][]byte{{1, 2}}, pure: hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		"a bad body":           {list: [][]byte{s.inner(s.owner, mine, amounts(s.owner.id.AccountID(), 1))}, pure: hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS},
		"a batch":              {list: [][]byte{s.inner(s.owner, mine, batchOf(one))}, pure: okay, want: hapi.ResponseCodeEnum_BATCH_TRANSACTION_IN_BLACKLIST},
		"too many":             {list: many, pure: okay, want: hapi.ResponseCodeEnum_BATCH_SIZE_LIMIT_EXCEEDED},
		"another's key":        {list: [][]byte{s.inner(s.owner, publicKey(s.other), pay)}, pure: okay, want: hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		"a payer who has not":  {list: [][]byte{s.inner(party{id: s.other.id, key: s.owner.key}, mine, pay)}, pure: okay, want: hapi.ResponseCodeEnum_INNER_TRANSACTION_FAILED, inner: hapi.ResponseCodeEnum_INVALID_PAYER_SIGNATURE},
		"a party who has not":  {list: [][]byte{s.inner(s.owner, mine, foreign)}, pure: okay, want: hapi.ResponseCodeEnum_INNER_TRANSACTION_FAILED, inner: hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		"a party who has both": {list: [][]byte{s.inner(s.owner, mine, foreign, s.other.key)}, pure: okay, want: okay, inner: okay},
	} {
		body := batchOf(tt.list...)
		if got := s.PureCheck(body); got != tt.pure {
			t.Errorf("%s: %s, want %s", name, got, tt.pure)
		}
		if tt.pure != okay {
			continue
		}
		if rec := s.submit(s.owner.id, body, s.owner.key); rec.Status != tt.want {
			t.Errorf("%s: %s, want %s", name, rec.Status, tt.want)
		}
		if tt.inner != 0 {
			if found := s.Handled().RecordsByID(innerID(t, tt.list[0])); len(found) != 1 || found[0].Status != tt.inner {
				t.Errorf("%s: inner %+v, want %s", name, found, tt.inner)
			}
		}
	}
}
