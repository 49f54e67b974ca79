package devaccounts

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// What is derived is what everybody knows.
func TestKnownAccounts(t *testing.T) {
	accounts := append(All(), Signers(3)...)
	for i, known := range map[int]struct{ address, public string }{
		0:  {"67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69", "02b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d2"},
		10: {"00000000000000000000000000000000000003f4", "024778141fffe462dbb3817c93e4252b2d6f5f5667fa71f34b84280265c01d408f"},
		20: {"00000000000000000000000000000000000003fe", "0b3d4a18bb0013cf9bc80b988a3ea3043775438493534e4d04c1687e848164c8"},
		30: {"f39fd6e51aad88f6f4ce6ab8827279cfffb92266", "038318535b54105d4a7aae60c08fc45f9687181b4fdfc625bd1a753fa7397fed75"},
	} {
		if a := accounts[i]; hex.EncodeToString(a.EVMAddress().Bytes()) != known.address || hex.EncodeToString(a.PublicKey) != known.public {
			t.Errorf("account %d has the address %s and the key %x", i, a.EVMAddress(), a.PublicKey)
		}
	}
	for i, a := range accounts {
		if a.ID != hedera.Entity(first+int64(i)) || a.Balance < Balance {
			t.Errorf("account %d is %s and has %d", i, a.ID, a.Balance)
		}
	}
	if got := hex.EncodeToString(OperatorPublicKey()); got != "0aa8e21064c61eab86e2a9c164565b4e7a9a4146106e0a6cd03a8c395a110e92" {
		t.Errorf("operator key: %s", got)
	}
}

func TestMnemonicAccounts(t *testing.T) {
	seed := must.Get(pbkdf2.Key(sha512.New, Mnemonic, []byte("mnemonic"), 2048, 64))(t)
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
		private := must.Get(crypto.ToECDSA(key))(t)
		data = crypto.CompressPubkey(&private.PublicKey)
	}
	var index [4]byte
	binary.BigEndian.PutUint32(index[:], i)
	left, right := split(sum(code, data, index[:]))
	n := new(big.Int).Add(new(big.Int).SetBytes(left), new(big.Int).SetBytes(key))
	return n.Mod(n, crypto.S256().Params().N).FillBytes(make([]byte, 32)), right
}
