package devaccounts

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/internal/hedera"
)

// Public keys and addresses are written out so that a start derives nothing. Here
// they are derived.
func TestKeysMatch(t *testing.T) {
	for _, a := range append(All(), Signers(3)...) {
		format := hedera.FormatHexECDSA
		if len(a.PublicKey) == hapikey.Ed25519Size {
			format = hedera.FormatHexEd25519
		}
		key, err := hedera.ParsePrivateKey(a.PrivateKey, format)
		if err != nil {
			t.Fatal(err)
		}
		address, _ := key.Address()
		if !bytes.Equal(key.Public(), a.PublicKey) || a.Address != a.EVMAddress() && a.EVMAddress() != a.ID.LongZero() ||
			a.EVMAddress() != a.ID.LongZero() && a.Address != address {
			t.Errorf("account %s does not match its key", a.ID)
		}
	}
	for i, a := range append(All(), Signers(3)...) {
		if a.ID != hedera.Entity(first+int64(i)) || a.Balance < Balance {
			t.Errorf("account %d is %s and has %d", i, a.ID, a.Balance)
		}
	}
	key, err := hedera.ParsePrivateKey(OperatorKey, hedera.FormatHexEd25519)
	if err != nil || !bytes.Equal(key.Public(), OperatorPublicKey()) {
		t.Errorf("operator key: %v", err)
	}
}

func TestMnemonicAccounts(t *testing.T) {
	seed, err := pbkdf2.Key(sha512.New, Mnemonic, []byte("mnemonic"), 2048, 64)
	if err != nil {
		t.Fatal(err)
	}
	key, code := split(sum([]byte("Bitcoin seed"), seed))
	const hardened = 1 << 31
	for _, i := range []uint32{44 + hardened, 60 + hardened, hardened, 0} {
		key, code = child(t, key, code, i)
	}
	accounts := All()[30:]
	for i, a := range accounts {
		if want, _ := child(t, key, code, uint32(i)); a.PrivateKey != hex.EncodeToString(want) {
			t.Errorf("account %d has another key", i)
		}
	}
	if len(accounts) != 10 {
		t.Errorf("%d accounts", len(accounts))
	}
}

func sum(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha512.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

func split(i []byte) (key, code []byte) { return i[:32], i[32:] }

// child is one step of BIP-32.
func child(t *testing.T, key, code []byte, i uint32) (childKey, childCode []byte) {
	t.Helper()
	data := append([]byte{0}, key...)
	if i < 1<<31 {
		private, err := crypto.ToECDSA(key)
		if err != nil {
			t.Fatal(err)
		}
		data = crypto.CompressPubkey(&private.PublicKey)
	}
	var index [4]byte
	binary.BigEndian.PutUint32(index[:], i)
	left, right := split(sum(code, data, index[:]))
	n := new(big.Int).Add(new(big.Int).SetBytes(left), new(big.Int).SetBytes(key))
	return n.Mod(n, crypto.S256().Params().N).FillBytes(make([]byte, 32)), right
}
