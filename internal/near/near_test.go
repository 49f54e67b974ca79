package near

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holiman/uint256"

	"lockstep/internal/must"
)

// testKeys are one secret key of each curve.
func testKeys(t testing.TB) []SecretKey {
	t.Helper()
	seed := sha256.Sum256([]byte("a key of the tests"))
	keys := make([]SecretKey, 0, 2)
	for _, curve := range []Curve{Ed25519, Secp256k1} {
		key := must.Get(ParseSecretKey(curve.String() + ":" + EncodeBase58(seed[:])))(t)
		keys = append(keys, key)
	}
	return keys
}

// everyAction has each kind, and each of its forms.
func everyAction(t testing.TB) []Action {
	t.Helper()
	keys := testKeys(t)
	highest := *new(uint256.Int).Sub(new(uint256.Int).Lsh(uint256.NewInt(1), 128), uint256.NewInt(1))
	delegate := must.Get(DelegateAction{
		Sender: "alice.near", Receiver: "bob.near", Nonce: 7, MaxBlockHeight: math.MaxUint64, PublicKey: keys[1].Public(),
		Actions: []Action{Transfer{*uint256.NewInt(1)}, UseGlobalContract{Account: "code.near"}},
	}.Sign(keys[1]))(t)
	return []Action{
		CreateAccount{},
		DeployContract{Code: []byte("code")},
		FunctionCall{Method: "grüße", Args: []byte(`{}`), Gas: math.MaxUint64, Deposit: highest},
		Transfer{highest},
		Stake{Stake: *uint256.NewInt(5), PublicKey: keys[0].Public()},
		AddKey{PublicKey: keys[0].Public(), AccessKey: AccessKey{Permission: FullAccess{}}},
		AddKey{PublicKey: keys[1].Public(), AccessKey: AccessKey{Nonce: 9, Permission: CallPermission{Receiver: "bob.near"}}},
		AddKey{PublicKey: keys[1].Public(), AccessKey: AccessKey{Permission: CallPermission{Allowance: &highest, Receiver: "bob.near", Methods: []string{"a", "b"}}}},
		DeleteKey{PublicKey: keys[1].Public()},
		DeleteAccount{Beneficiary: "bob.near"},
		Delegate{delegate},
		DeployGlobalContract{Code: []byte{0}, Mode: DeployByAccount},
		UseGlobalContract{Hash: Hash{1, 2}},
	}
}

func signed(t testing.TB, key SecretKey, actions ...Action) SignedTransaction {
	t.Helper()
	tx := must.Get(Transaction{
		Signer: "alice.near", PublicKey: key.Public(), Nonce: 1 << 63, Receiver: "bob.near", BlockHash: Hash{9}, Actions: actions,
	}.Sign(key))(t)
	return tx
}

func encoded(t testing.TB, value interface{ Encode() ([]byte, error) }) []byte {
	t.Helper()
	return must.Get(value.Encode())(t)
}

func TestTransactionsComeBack(t *testing.T) {
	for _, key := range testKeys(t) {
		tx := signed(t, key, everyAction(t)...)
		data := encoded(t, tx)
		got := must.Get(DecodeTransaction(data))(t)
		if !reflect.DeepEqual(got, tx) {
			t.Errorf("%v: decoded %+v\nfrom %+v", key.Public().Curve, got, tx)
		}
		if !got.Verify() {
			t.Errorf("%v: the signature does not verify", key.Public().Curve)
		}
		spoiled := got
		spoiled.Signature.data[len(got.Signature.Bytes())-1] ^= 1
		if spoiled.Verify() {
			t.Errorf("%v: another signature verifies", key.Public().Curve)
		}
		got.Nonce++
		if got.Verify() {
			t.Errorf("%v: the signature verifies for another nonce", key.Public().Curve)
		}
		for n := range data {
			if _, err := DecodeTransaction(data[:n]); err == nil {
				t.Fatalf("%v: %d of %d bytes are taken for a transaction", key.Public().Curve, n, len(data))
			}
		}
		if _, err := DecodeTransaction(append(data, 0)); err == nil {
			t.Errorf("%v: a byte behind the transaction is not seen", key.Public().Curve)
		}
	}
}

// TestHostileBytes has transactions that the chain refuses, too.
func TestHostileBytes(t *testing.T) {
	key := testKeys(t)[0]
	plain := encoded(t, signed(t, key, Transfer{*uint256.NewInt(1)}))
	// alice.near (4+10), key (33), nonce (8), bob.near (4+8), block (32), then the count.
	const count = 14 + 33 + 8 + 12 + 32
	change := func(at int, with ...byte) []byte {
		data := bytes.Clone(plain)
		copy(data[at:], with)
		return data
	}
	nested := append(change(0)[:count+4], numberOf(Delegate{}))
	nested = append(nested, encodedActions([]Action{Delegate{}})...)
	for name, data := range map[string][]byte{
		"nothing":                    nil,
		"too long":                   make([]byte, MaxTransaction+1),
		"a text of 4 GiB":            change(0, 0xff, 0xff, 0xff, 0xff),
		"a list of 4 Gi actions":     change(count, 0xff, 0xff, 0xff, 0xff),
		"101 actions":                append(change(count, 101)[:count+4], make([]byte, 400)...),
		"an unknown action":          change(count+4, 99),
		"an unknown curve":           change(14, 2),
		"an account id in capitals":  change(4, 'A'),
		"a text that is not UTF-8":   change(4, 0xff),
		"a delegate in a delegate":   nested,
		"an unknown signature curve": change(len(plain)-65, 7),
	} {
		if tx, err := DecodeTransaction(data); err == nil {
			t.Errorf("%s: decoded as %+v", name, tx)
		}
	}
}

func numberOf(a Action) byte { return byte(slices.Index(kinds, reflect.TypeOf(a))) }

// encodedActions writes a delegate action up to its nested actions, without checks.
func encodedActions(list []Action) []byte {
	var c codec
	sender, receiver := "alice.near", "bob.near"
	c.text(&sender)
	c.text(&receiver)
	c.count(len(list), 0)
	for _, a := range list {
		c.data = append(c.data, numberOf(a))
	}
	return append(c.data, make([]byte, 300)...)
}

// TestWhatIsNotEncoded has transactions that a decoder would refuse.
func TestWhatIsNotEncoded(t *testing.T) {
	key := testKeys(t)[0]
	good := Transaction{Signer: "alice.near", PublicKey: key.Public(), Receiver: "bob.near"}
	must.Get(good.Encode())(t)
	for name, change := range map[string]func(*Transaction){
		"an empty signer":             func(tx *Transaction) { tx.Signer = "" },
		"a receiver with a space":     func(tx *Transaction) { tx.Receiver = "bob near" },
		"an unknown curve":            func(tx *Transaction) { tx.PublicKey.Curve = 9 },
		"101 actions":                 func(tx *Transaction) { tx.Actions = make([]Action, 101) },
		"no action":                   func(tx *Transaction) { tx.Actions = []Action{nil} },
		"an amount of 129 bits":       func(tx *Transaction) { tx.Actions = []Action{Transfer{uint256.Int{0, 0, 1}}} },
		"a key without a permission":  func(tx *Transaction) { tx.Actions = []Action{AddKey{PublicKey: key.Public()}} },
		"an unknown deploy mode":      func(tx *Transaction) { tx.Actions = []Action{DeployGlobalContract{Mode: 2}} },
		"code that is too long":       func(tx *Transaction) { tx.Actions = []Action{DeployContract{make([]byte, MaxTransaction)}} },
		"a method that is not UTF-8":  func(tx *Transaction) { tx.Actions = []Action{FunctionCall{Method: "\xff"}} },
		"a delegate without a sender": func(tx *Transaction) { tx.Actions = []Action{Delegate{}} },
		"a delegate in a delegate": func(tx *Transaction) {
			inner := DelegateAction{Sender: "alice.near", Receiver: "bob.near", PublicKey: key.Public(), Actions: []Action{Delegate{}}}
			tx.Actions = []Action{Delegate{SignedDelegate{DelegateAction: inner}}}
		},
	} {
		tx := good
		change(&tx)
		if data, err := tx.Encode(); err == nil {
			t.Errorf("%s: %d bytes", name, len(data))
		}
	}
}

func TestDelegateActions(t *testing.T) {
	keys := testKeys(t)
	action := DelegateAction{Sender: "alice.near", Receiver: "bob.near", Actions: []Action{CreateAccount{}}, Nonce: 1, MaxBlockHeight: 2, PublicKey: keys[0].Public()}
	delegate := must.Get(action.Sign(keys[0]))(t)
	got, err := DecodeDelegate(encoded(t, delegate))
	if err != nil || !reflect.DeepEqual(got, delegate) || !got.Verify() {
		t.Errorf("decoded %+v (%v), want %+v", got, err, delegate)
	}
	// Without the prefix a signature would be good for other messages with these bytes.
	plain, err := encode(&action)
	if hash, other := action.Hash(); err != nil || other != nil || hash == sha256.Sum256(plain) {
		t.Errorf("the hash %v has no prefix (%v)", hash, err)
	}
	if other, err := action.Sign(keys[1]); err != nil || other.Verify() {
		t.Errorf("another key's signature verifies (%v)", err)
	}
}

func TestActionLists(t *testing.T) {
	list := everyAction(t)
	data := must.Get(EncodeActions(list))(t)
	if got, err := DecodeActions(data); err != nil || !reflect.DeepEqual(got, list) {
		t.Errorf("decoded %+v (%v)", got, err)
	}
	if _, err := DecodeActions(append(data, 0)); err == nil {
		t.Error("a byte behind the list is not seen")
	}
	// Of a call, a transfer and a delegated transfer: twice the highest amount, and 1.
	if got := Deposit(list); got.Dec() != "680564733841876926926749214863536422911" {
		t.Errorf("the deposits are %s", got.Dec())
	}
}

func TestBase58(t *testing.T) {
	for text, data := range map[string]string{
		"": "", "1": "\x00", "11": "\x00\x00", "2": "\x01", "5Q": "\xff", "1112": "\x00\x00\x00\x01", "2NEpo7TZRRrLZSi2U": "Hello World!",
	} {
		if got := EncodeBase58([]byte(data)); got != text {
			t.Errorf("%q encodes to %q, want %q", data, got, text)
		}
		if got, err := DecodeBase58(text); err != nil || string(got) != data {
			t.Errorf("%q decodes to %q (%v), want %q", text, got, err, data)
		}
	}
	for _, text := range []string{"0", "O", "I", "l", "a b", "é", strings.Repeat("z", 141)} {
		if got, err := DecodeBase58(text); err == nil {
			t.Errorf("%q decodes to %q", text, got)
		}
	}
}

func TestKeyTexts(t *testing.T) {
	for _, key := range testKeys(t) {
		public := key.Public()
		if got, err := ParsePublicKey(public.String()); err != nil || got != public {
			t.Errorf("%v reads as %v (%v)", public, got, err)
		}
		seed := sha256.Sum256([]byte("a key of the tests"))
		long := public.Curve.String() + ":" + EncodeBase58(append(seed[:], public.Bytes()...))
		if got, err := ParseSecretKey(long); err != nil || got.Public() != public {
			t.Errorf("%v: the long secret key reads as that of %v (%v)", public, got.Public(), err)
		}
		other := bytes.Repeat([]byte{3}, len(public.Bytes()))
		if _, err := ParseSecretKey(public.Curve.String() + ":" + EncodeBase58(append(seed[:], other...))); err == nil {
			t.Errorf("%v: a secret key with another public key is taken", public.Curve)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if shown := fmt.Sprintf(verb, key); shown != public.Curve.String()+" secret key" {
				t.Errorf("%s shows %q", verb, shown)
			}
		}
	}
	for _, text := range []string{"", "ed25519:", "ed25519:11", "rsa:11111111111111111111111111111111", "secp256k1:11111111111111111111111111111111"} {
		if _, err := ParseSecretKey(text); err == nil {
			t.Errorf("%q is taken for a secret key", text)
		}
		if _, err := ParsePublicKey(text); err == nil {
			t.Errorf("%q is taken for a public key", text)
		}
	}
}

func TestAccounts(t *testing.T) {
	for _, id := range []string{"aa", "alice.near", "a-b_c.d1", strings.Repeat("a", 64)} {
		if err := CheckAccount(id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, id := range []string{"", "a", "A.near", ".near", "near.", "a..b", "a-_b", "a b", "ä.near", strings.Repeat("a", 65)} {
		if CheckAccount(id) == nil {
			t.Errorf("%q is taken for an account id", id)
		}
	}
}

// FuzzDecode holds decoders to bytes of strangers: what they take is the one encoding of its value.
func FuzzDecode(f *testing.F) {
	for _, key := range testKeys(f) {
		f.Add(encoded(f, signed(f, key, everyAction(f)...)))
		for _, action := range everyAction(f) {
			f.Add(encoded(f, signed(f, key, action)))
			if delegate, ok := action.(Delegate); ok {
				f.Add(encoded(f, delegate))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if tx, err := DecodeTransaction(data); err == nil {
			if again, err := tx.Encode(); err != nil || !bytes.Equal(again, data) {
				t.Errorf("%x\nencodes to %x (%v)", data, again, err)
			}
			tx.Verify() // does not panic
		}
		if delegate, err := DecodeDelegate(data); err == nil {
			if again, err := delegate.Encode(); err != nil || !bytes.Equal(again, data) {
				t.Errorf("delegate: %x\nencodes to %x (%v)", data, again, err)
			}
		}
	})
}
