// Package devaccounts has the accounts that a development network begins with, whose keys the
// whole world knows.
package devaccounts

import (
	"encoding/hex"
	"slices"
	"strconv"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/hedera"
)

// Account is an account that exists from the start.
type Account struct {
	ID        hedera.ID
	PublicKey []byte         // 32 bytes of Ed25519 or 33 of compressed secp256k1
	Address   common.Address // the EVM alias; zero for none, which leaves the long-zero address
	Balance   hedera.Tinybar

	// PrivateKey is 64 hexadecimal digits. Development keys are published with
	// every tool of the ecosystem: they protect nothing.
	PrivateKey string
}

// EVMAddress returns the address that the EVM knows the account by.
func (a Account) EVMAddress() common.Address {
	if a.Address == (common.Address{}) {
		return a.ID.LongZero()
	}
	return a.Address
}

// OperatorKey is the Ed25519 development key of the treasury, 0.0.2:
// 64 hexadecimal digits, the same on every local network.
const OperatorKey = "91132178e72057a1d7528025956fe39b0b847f200ab59b2fdd367017f3087137"

// Mnemonic is the phrase behind the last group of All, in the usual path
// m/44'/60'/0'/0/i.
const Mnemonic = "test test test test test test test test test test test junk"

// first is the number of the first of the accounts.
const first = 1002

// OperatorPublicKey is the public part of OperatorKey.
func OperatorPublicKey() []byte {
	return derived(hedera.Entity(2), OperatorKey, hedera.FormatHexEd25519, false, 0).PublicKey
}

// Balances of the groups of All; signers have Balance, too.
const (
	RichBalance = 1_000_000 * hedera.Hbar
	Balance     = 10_000 * hedera.Hbar
)

// All returns the ecosystem's fixed development accounts:
//
//	0.0.1002 – 1011  secp256k1 with EVM alias      1,000,000 ℏ
//	0.0.1012 – 1021  secp256k1, long-zero address     10,000 ℏ
//	0.0.1022 – 1031  Ed25519                          10,000 ℏ
//	0.0.1032 – 1041  the accounts of Mnemonic         10,000 ℏ
func All() []Account { return slices.Clone(all()) }

var all = sync.OnceValue(func() []Account {
	accounts := make([]Account, 0, 40)
	group := func(keys []string, format hedera.KeyFormat, alias bool, balance hedera.Tinybar) {
		for _, private := range keys {
			accounts = append(accounts, derived(hedera.Entity(first+int64(len(accounts))), private, format, alias, balance))
		}
	}
	group(aliasKeys, hedera.FormatHexECDSA, true, RichBalance)
	group(longZeroKeys, hedera.FormatHexECDSA, false, Balance)
	group(ed25519Keys, hedera.FormatHexEd25519, false, Balance)
	group(mnemonicKeys, hedera.FormatHexECDSA, true, Balance)
	return accounts
})

// Signers returns further funded accounts that no wallet has: a program that signs by
// itself uses them without taking nonces from people. Their keys are as public as the others'.
func Signers(n int) []Account {
	accounts := make([]Account, 0, n)
	next := first + int64(len(all()))
	for i := range n {
		private := hex.EncodeToString(crypto.Keccak256([]byte("lockstep development signer " + strconv.Itoa(i))))
		accounts = append(accounts, derived(hedera.Entity(next+int64(i)), private, hedera.FormatHexECDSA, true, Balance))
	}
	return accounts
}

func derived(id hedera.ID, private string, format hedera.KeyFormat, alias bool, balance hedera.Tinybar) Account {
	key, err := hedera.ParsePrivateKey(private, format)
	if err != nil {
		panic(err) // a constant of this file, or the hash of one, is no key
	}
	a := Account{ID: id, PublicKey: key.Public(), Balance: balance, PrivateKey: private}
	if alias {
		a.Address, _ = key.Address() // the format has one
	}
	return a
}

// The private keys.
var (
	aliasKeys = []string{
		"105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524",
		"2e1d968b041d84dd120a5860cee60cd83f9374ef527ca86996317ada3d0d03e7",
		"45a5a7108a18dd5013cf2d5857a28144beadc9c70b3bdbd914e38df4e804b8d8",
		"6e9d61a325be3f6675cf8b7676c70e4a004d2308e3e182370a41f5653d52c6bd",
		"0b58b1bd44469ac9f813b5aeaf6213ddaea26720f0b2f133d08b6f234130a64f",
		"95eac372e0f0df3b43740fa780e62458b2d2cc32d6a440877f1cc2a9ad0c35cc",
		"6c6e6727b40c8d4b616ab0d26af357af09337299f09c66704146e14236972106",
		"5072e7aa1b03f531b4731a32a021f6a5d20d5ddc4e55acbb71ae202fc6f3a26d",
		"60fe891f13824a2c1da20fb6a14e28fa353421191069ba6b6d09dd6c29b90eff",
		"eae4e00ece872dd14fb6dc7a04f390563c7d69d16326f2a703ec8e0934060cc7",
	}
	longZeroKeys = []string{
		"7f109a9e3b0d8ecfba9cc23a3614433ce0fa7ddcc80f2a8f10b222179a5a80d6",
		"6ec1f2e7d126a74a1d2ff9e1c5d90b92378c725e506651ff8bb8616a5c724628",
		"b4d7f7e82f61d81c95985771b8abf518f9328d019c36849d4214b5f995d13814",
		"941536648ac10d5734973e94df413c17809d6cc5e24cd11e947e685acfbd12ae",
		"5829cf333ef66b6bdd34950f096cb24e06ef041c5f63e577b4f3362309125863",
		"8fc4bffe2b40b2b7db7fd937736c4575a0925511d7a0a2dfc3274e8c17b41d20",
		"b6c10e2baaeba1fa4a8b73644db4f28f4bf0912cceb6e8959f73bb423c33bd84",
		"fe8875acb38f684b2025d5472445b8e4745705a9e7adc9b0485a05df790df700",
		"bdc6e0a69f2921a78e9af930111334a41d3fab44653c8de0775572c526feea2d",
		"3e215c3d2a59626a669ed04ec1700f36c05c9b216e592f58bbfd3d8aa6ea25f9",
	}
	ed25519Keys = []string{
		"a608e2130a0a3cb34f86e757303c862bee353d9ab77ba4387ec084f881d420d4",
		"bbd0894de0b4ecfa862e963825c5448d2d17f807a16869526bff29185747acdb",
		"8fd50f886a2e7ed499e7686efd1436b50aa9b64b26e4ecc4e58ca26e6257b67d",
		"62c966ebd9dcc0fc16a553b2ef5b72d1dca05cdf5a181027e761171e9e947420",
		"805c9f422fd9a768fdd8c68f4fe0c3d4a93af714ed147ab6aed5f0ee8e9ee165",
		"abfdb8bf0b46c0da5da8d764316f27f185af32357689f7e19cb9ec3e0f590775",
		"ec299c9f17bb8bdd5f3a21f1c2bffb3ac86c22e84c325e92139813639c9c3507",
		"cb833706d1df537f59c418a00e36159f67ce3760ce6bf661f11f6da2b11c2c5a",
		"9b6adacefbbecff03e4359098d084a3af8039ce7f29d95ed28c7ebdb83740c83",
		"9a07bbdbb62e24686d2a4259dc88e38438e2c7a1ba167b147ad30ac540b0a3cd",
	}
	mnemonicKeys = []string{
		"ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
		"59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
		"5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
		"7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
		"47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
		"8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba",
		"92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e",
		"4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356",
		"dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97",
		"2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6",
	}
)
