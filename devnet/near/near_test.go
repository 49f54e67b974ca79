package near

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holiman/uint256"

	"lockstep/internal/must"
	"lockstep/internal/near"
)

// world is a chain whose blocks are made by the test, and its node.
type world struct {
	*testing.T
	chain *Chain
	keys  map[string]near.SecretKey
	url   string
}

func newWorld(t *testing.T, config Config) *world {
	t.Helper()
	developers, accounts, err := Developers()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, keys: map[string]near.SecretKey{}}
	for _, d := range developers {
		if w.keys[d.ID], err = near.ParseSecretKey(d.SecretKey); err != nil {
			t.Fatal(err)
		}
	}
	config.Accounts = accounts
	w.chain = New(config)
	server := httptest.NewServer(w.chain)
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// tx is a signed transaction on the newest block.
func (w *world) tx(signer string, nonce uint64, receiver string, actions ...near.Action) near.SignedTransaction {
	w.Helper()
	w.chain.mu.Lock()
	hash := w.chain.head().hash
	w.chain.mu.Unlock()
	signed := must.Get(near.Transaction{
		Signer: signer, PublicKey: w.keys[signer].Public(), Nonce: nonce, Receiver: receiver, BlockHash: hash, Actions: actions,
	}.Sign(w.keys[signer]))(w)
	return signed
}

type answer struct {
	Result map[string]any
	Error  *struct {
		Cause struct{ Name string }
		Data  json.RawMessage
	}
}

// post calls the node; ok is false if the connection broke.
func (w *world) post(method string, params any) (got answer, ok bool) {
	w.Helper()
	body := must.Get(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))(w)
	request := must.Get(http.NewRequestWithContext(w.Context(), http.MethodPost, w.url, bytes.NewReader(body)))(w)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return got, false
	}
	defer response.Body.Close()
	must.Do(w, json.NewDecoder(response.Body).Decode(&got))
	return got, true
}

// offer sends without waiting for a block, and returns what the node has against it.
func (w *world) offer(tx near.SignedTransaction) string {
	w.Helper()
	data := must.Get(tx.Encode())(w)
	decoded := must.Get(near.DecodeTransaction(data))(w)
	refusal := w.chain.send(decoded)
	if refusal == nil {
		return ""
	}
	text := must.Get(json.Marshal(refusal))(w)
	return string(text)
}

// taken offers transactions that the node has nothing against.
func (w *world) taken(txs ...near.SignedTransaction) {
	w.Helper()
	for _, tx := range txs {
		if refusal := w.offer(tx); refusal != "" {
			w.Fatal(refusal)
		}
	}
}

// mine makes some blocks.
func (w *world) mine(blocks int) {
	for range blocks {
		w.chain.Mine()
	}
}

// status is what the node says of a transaction.
func (w *world) status(tx near.SignedTransaction) (level, status string) {
	w.Helper()
	hash := must.Get(tx.Hash())(w)
	got, _ := w.post("tx", map[string]any{"tx_hash": hash.String(), "sender_account_id": tx.Signer, "wait_until": "NONE"})
	if got.Error != nil {
		return got.Error.Cause.Name, ""
	}
	text := must.Get(json.Marshal(got.Result["status"]))(w)
	return got.Result["final_execution_status"].(string), string(text)
}

func (w *world) balance(id string) *uint256.Int {
	w.chain.mu.Lock()
	defer w.chain.mu.Unlock()
	a := w.chain.account(id, w.chain.head().height)
	if a == nil {
		return nil
	}
	return new(uint256.Int).Set(&a.amount)
}

func give(n uint64) near.Transfer {
	return near.Transfer{Deposit: *uint256.NewInt(n)}
}

// TestNonces is the rule that the whole model is for: a nonce must rise, and what is below
// a nonce that was used is dead.
func TestNonces(t *testing.T) {
	w := newWorld(t, Config{})
	low, high := w.tx("alice.test", 5, "bob.test", give(1)), w.tx("alice.test", 9, "bob.test", give(2))
	before := w.balance("bob.test")
	w.taken(high, low) // in one block the lower goes first
	w.mine(2)
	if got := new(uint256.Int).Sub(w.balance("bob.test"), before).Uint64(); got != 3 {
		t.Errorf("bob has got %d, want 3", got)
	}
	dead := w.tx("alice.test", 7, "bob.test", give(4))
	if refusal := w.offer(dead); refusal != `{"InvalidTxError":{"InvalidNonce":{"ak_nonce":9,"tx_nonce":7}}}` {
		t.Errorf("a nonce below a used one: %s", refusal)
	}
	if refusal := w.offer(high); refusal != "" {
		t.Errorf("the same transaction again: %s", refusal)
	}
	if refusal := w.offer(w.tx("alice.test", 1_000_000_000, "bob.test", give(4))); !strings.Contains(refusal, "NonceTooLarge") {
		t.Errorf("a nonce that is too large: %s", refusal)
	}
	// A node takes both, and drops the lower one when the higher one is in a block.
	a, b := w.tx("alice.test", 20, "bob.test", give(8)), w.tx("alice.test", 30, "bob.test", give(16))
	w.taken(b)
	w.chain.Mine()
	if refusal := w.offer(a); !strings.Contains(refusal, "InvalidNonce") {
		t.Errorf("what was overtaken: %s", refusal)
	}
	if level, _ := w.status(a); level != "UNKNOWN_TRANSACTION" {
		t.Errorf("what was overtaken is %s", level)
	}
}

func TestExpiry(t *testing.T) {
	w := newWorld(t, Config{Validity: 3})
	tx := w.tx("alice.test", 1, "bob.test", give(1))
	w.mine(3)
	if refusal := w.offer(tx); refusal != `{"InvalidTxError":"Expired"}` {
		t.Errorf("after its blocks: %q", refusal)
	}
	fresh := w.tx("alice.test", 1, "bob.test", give(1))
	w.mine(2)
	if refusal := w.offer(fresh); refusal != "" {
		t.Errorf("in its last block: %s", refusal)
	}
}

// TestLevels follows one transaction to finality, and its money.
func TestLevels(t *testing.T) {
	w := newWorld(t, Config{})
	alice, bob := w.balance("alice.test"), w.balance("bob.test")
	tx := w.tx("alice.test", 1, "bob.test", give(1000))
	w.taken(tx)
	var levels []string
	for range 6 {
		level, _ := w.status(tx)
		levels = append(levels, level)
		w.chain.Mine()
	}
	want := "UNKNOWN_TRANSACTION INCLUDED EXECUTED_OPTIMISTIC EXECUTED FINAL FINAL"
	if got := strings.Join(levels, " "); got != want {
		t.Errorf("levels %s, want %s", got, want)
	}
	if got := new(uint256.Int).Sub(w.balance("bob.test"), bob).Uint64(); got != 1000 {
		t.Errorf("bob has got %d", got)
	}
	// A transfer burns 446,365,125,000 gas at 100,000,000 yoctoNEAR, all of which was paid for.
	if got := new(uint256.Int).Sub(alice, w.balance("alice.test")).Dec(); got != "44636512500000001000" {
		t.Errorf("alice has paid %s", got)
	}
}

// TestAllOrNothing has a receipt whose last action fails: nothing of it happens, the deposit
// comes back, and the nonce is used.
func TestAllOrNothing(t *testing.T) {
	w := newWorld(t, Config{})
	key := w.keys["bob.test"].Public()
	full := near.AccessKey{Permission: near.FullAccess{}}
	tx := w.tx("alice.test", 1, "new.alice.test", near.CreateAccount{}, give(7), near.AddKey{PublicKey: key, AccessKey: full}, near.AddKey{PublicKey: key, AccessKey: full})
	before := w.balance("alice.test")
	w.taken(tx)
	w.mine(5)
	if _, status := w.status(tx); !strings.Contains(status, `"index":3`) || !strings.Contains(status, "AddKeyAlreadyExists") {
		t.Errorf("its status is %s", status)
	}
	if w.balance("new.alice.test") != nil {
		t.Error("the account was created")
	}
	cost, _ := costOf(tx)
	paid := new(uint256.Int).Sub(before, w.balance("alice.test"))
	if paid.Gt(&cost) || paid.IsZero() || new(uint256.Int).Sub(&cost, paid).Lt(uint256.NewInt(7)) {
		t.Errorf("alice has paid %s of %s", paid.Dec(), cost.Dec())
	}
	if refusal := w.offer(w.tx("alice.test", 1, "bob.test", give(1))); !strings.Contains(refusal, "InvalidNonce") {
		t.Errorf("its nonce is free: %s", refusal)
	}
}

// TestDelegate carries alice's action twice: the second time her key's nonce is used.
func TestDelegate(t *testing.T) {
	w := newWorld(t, Config{})
	signed := must.Get(near.DelegateAction{
		Sender: "alice.test", Receiver: "bob.test", Actions: []near.Action{give(5)}, Nonce: 1, MaxBlockHeight: 100, PublicKey: w.keys["alice.test"].Public(),
	}.Sign(w.keys["alice.test"]))(t)
	alice, bob := w.balance("alice.test"), w.balance("bob.test")
	first := w.tx("relayer.test", 1, "alice.test", near.Delegate{SignedDelegate: signed})
	second := w.tx("relayer.test", 2, "alice.test", near.Delegate{SignedDelegate: signed})
	forged := signed
	forged.DelegateAction.Nonce = 2
	third := w.tx("relayer.test", 3, "alice.test", near.Delegate{SignedDelegate: forged})
	w.taken(first, second, third)
	w.mine(6)
	if level, status := w.status(first); level != "FINAL" || status != `{"SuccessValue":""}` {
		t.Errorf("it is %s, %s", level, status)
	}
	if _, status := w.status(second); !strings.Contains(status, `"DelegateActionInvalidNonce":{"ak_nonce":1,"delegate_nonce":1}`) {
		t.Errorf("again it is %s", status)
	}
	if _, status := w.status(third); !strings.Contains(status, "DelegateActionInvalidSignature") {
		t.Errorf("forged it is %s", status)
	}
	if got := new(uint256.Int).Sub(w.balance("bob.test"), bob).Uint64(); got != 5 {
		t.Errorf("bob has got %d, want 5", got)
	}
	// Deposits come from the relayer; those that did not arrive go back to the predecessor,
	// who is the relayer of a delegate action that failed.
	if got := w.balance("alice.test"); !got.Eq(alice) {
		t.Errorf("alice has %s, had %s", got.Dec(), alice.Dec())
	}
}

func TestFaults(t *testing.T) {
	w := newWorld(t, Config{})
	send := func(tx near.SignedTransaction) (answer, bool) {
		data := must.Get(tx.Encode())(t)
		return w.post("send_tx", map[string]any{"signed_tx_base64": base64.StdEncoding.EncodeToString(data), "wait_until": "NONE"})
	}
	lost, never := w.tx("alice.test", 1, "bob.test", give(1)), w.tx("alice.test", 2, "bob.test", give(1))
	w.chain.Faults().Next("send_tx", LostReply, 1)
	if _, ok := send(lost); ok {
		t.Error("a reply that was lost has come")
	}
	w.chain.Faults().Next("send_tx", LostRequest, 1)
	if _, ok := send(never); ok {
		t.Error("a request that was lost is answered")
	}
	w.chain.Mine()
	if level, _ := w.status(lost); level != "INCLUDED" {
		t.Errorf("whose reply was lost is %s", level)
	}
	if level, _ := w.status(never); level != "UNKNOWN_TRANSACTION" {
		t.Errorf("whose request was lost is %s", level)
	}
	w.chain.Faults().Next("send_tx", Congested, 1)
	if refusal := w.offer(never); !strings.Contains(refusal, "ShardCongested") {
		t.Errorf("a congested shard says %q", refusal)
	}
	if refusal := w.offer(never); refusal != "" {
		t.Errorf("a shard that is free again says %q", refusal)
	}
}
