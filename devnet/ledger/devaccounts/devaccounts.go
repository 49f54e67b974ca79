// Package devaccounts has the accounts that a development network begins with, whose keys the
// whole world knows.
package devaccounts

import (
	"encoding/hex"
	"strconv"

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
const (
	OperatorKey    = "91132178e72057a1d7528025956fe39b0b847f200ab59b2fdd367017f3087137"
	operatorPublic = "0aa8e21064c61eab86e2a9c164565b4e7a9a4146106e0a6cd03a8c395a110e92"
)

// Mnemonic is the phrase behind the last group of All, in the usual path
// m/44'/60'/0'/0/i.
const Mnemonic = "test test test test test test test test test test test junk"

// first is the number of the first of the accounts.
const first = 1002

// OperatorPublicKey is the public part of OperatorKey.
func OperatorPublicKey() []byte { return unhex(operatorPublic) }

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
func All() []Account {
	accounts := make([]Account, 0, 40)
	group := func(keys [10]devKey, alias bool, balance hedera.Tinybar) {
		for _, k := range keys {
			a := Account{
				ID:         hedera.Entity(first + int64(len(accounts))),
				PublicKey:  unhex(k.public),
				Balance:    balance,
				PrivateKey: k.private,
			}
			if alias {
				a.Address = common.Address(unhex(k.address))
			}
			accounts = append(accounts, a)
		}
	}
	group(aliasKeys(), true, RichBalance)
	group(longZeroKeys(), false, Balance)
	group(ed25519Keys(), false, Balance)
	group(mnemonicKeys(), true, Balance)
	return accounts
}

// Signers returns further funded accounts that no wallet has: a program that signs by
// itself uses them without taking nonces from people. Their keys are as public as the others'.
func Signers(n int) []Account {
	accounts := make([]Account, 0, n)
	next := first + int64(len(All()))
	for i := range n {
		private := crypto.Keccak256([]byte("lockstep development signer " + strconv.Itoa(i)))
		key, err := crypto.ToECDSA(private)
		if err != nil {
			panic(err) // the hash of a constant is no key
		}
		accounts = append(accounts, Account{
			ID: hedera.Entity(next + int64(i)), PublicKey: crypto.CompressPubkey(&key.PublicKey), Address: crypto.PubkeyToAddress(key.PublicKey),
			Balance: Balance, PrivateKey: hex.EncodeToString(private),
		})
	}
	return accounts
}

// devKey is hexadecimal throughout. Public key and address are written out so
// that a start derives nothing.
type devKey struct{ private, public, address string }

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err) // a constant of this file is malformed
	}
	return b
}

func aliasKeys() [10]devKey {
	return [10]devKey{
		{"105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524", "02b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d2", "67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69"},
		{"2e1d968b041d84dd120a5860cee60cd83f9374ef527ca86996317ada3d0d03e7", "03c065d7a6c816e36a20460f16bcb91d33a4c0231cccfb648776c392188d561849", "05fba803be258049a27b820088bab1cad2058871"},
		{"45a5a7108a18dd5013cf2d5857a28144beadc9c70b3bdbd914e38df4e804b8d8", "02930a39a381a68d90afc8e8c82935bd93f89800e88ec29a18e8cc13d51947c6c8", "927e41ff8307835a1c081e0d7fd250625f2d4d0e"},
		{"6e9d61a325be3f6675cf8b7676c70e4a004d2308e3e182370a41f5653d52c6bd", "035303ada0ba5827148f254bddebb24aea59f0c035fceddedef5b47f4d2ef5d34e", "c37f417fa09933335240fca72dd257bfbde9c275"},
		{"0b58b1bd44469ac9f813b5aeaf6213ddaea26720f0b2f133d08b6f234130a64f", "0398e17bcbd2926c4d8a31e32616b4754ac0a2fc71d7fb768e657db46202625f34", "d927017f5a6a7a92458b81468dc71fce6115b325"},
		{"95eac372e0f0df3b43740fa780e62458b2d2cc32d6a440877f1cc2a9ad0c35cc", "03c1b3b364f2fadb3030633ca602865d35f43eacac404620c3165a22724982876f", "5c41a21f14cfe9808cbec1d91b55ba75ed327eb6"},
		{"6c6e6727b40c8d4b616ab0d26af357af09337299f09c66704146e14236972106", "029e7d3f0f26884c59e350047049afc4d2b802853be83f21ee5f7431a1670a78d6", "cdad5844f865f379bea057fb435aefef38361b68"},
		{"5072e7aa1b03f531b4731a32a021f6a5d20d5ddc4e55acbb71ae202fc6f3a26d", "0355220066227c5cfa7c362ddb97e59d9af24092dd65035f08cddb761cd1df448e", "6e5d3858f53fc66727188690946631bde0466b1a"},
		{"60fe891f13824a2c1da20fb6a14e28fa353421191069ba6b6d09dd6c29b90eff", "0223f4c4f1e822f75e56d21e75066e982e0823f282e1f3bf7e59ae692cf7243c5b", "29cbb51a44fd332c14180b4d471fbbc6654b1657"},
		{"eae4e00ece872dd14fb6dc7a04f390563c7d69d16326f2a703ec8e0934060cc7", "0312c727db165d8b1a7b1ec690ab0936cadb239f882b07c677cdeca18b69d24dbc", "17b2b8c63fa35402088640e426c6709a254c7ffb"},
	}
}

func longZeroKeys() [10]devKey {
	return [10]devKey{
		{"7f109a9e3b0d8ecfba9cc23a3614433ce0fa7ddcc80f2a8f10b222179a5a80d6", "024778141fffe462dbb3817c93e4252b2d6f5f5667fa71f34b84280265c01d408f", "e261e26aecce52b3788fac9625896ffbc6bb4424"},
		{"6ec1f2e7d126a74a1d2ff9e1c5d90b92378c725e506651ff8bb8616a5c724628", "03cebebb1d82456c398ebd1532c7a44425fb65af44e340d5a2a244018d3390c843", "ce16e8eb8f4bf2e65ba9536c07e305b912bafacf"},
		{"b4d7f7e82f61d81c95985771b8abf518f9328d019c36849d4214b5f995d13814", "02e57607b7ff7d25556f16a31c1571d75b04ef685d884076d5ff800ca046000090", "02f1c4c93afed946cce5ad7d34354a150befcfcf"},
		{"941536648ac10d5734973e94df413c17809d6cc5e24cd11e947e685acfbd12ae", "0206d73c14edf64826c330c7b3cf000f51b3ddc9e2f8413b9fc906298d70e26707", "0b75f0b70076fab3f18f94700ecaf3b00fe528e7"},
		{"5829cf333ef66b6bdd34950f096cb24e06ef041c5f63e577b4f3362309125863", "035bbb1a9545201278cef507b0799279146a541d0d004bdc16b742d5381a8b9ded", "7194d1f1d43c2c58302bb61a224d41b649e65c93"},
		{"8fc4bffe2b40b2b7db7fd937736c4575a0925511d7a0a2dfc3274e8c17b41d20", "03d6f7efdba064005f7f96801c2489a1f2059f95c8b936446178080181d9c3e3b6", "c9a2d92c5913edead9a7c936c96631f0f2241063"},
		{"b6c10e2baaeba1fa4a8b73644db4f28f4bf0912cceb6e8959f73bb423c33bd84", "02b75677cfda0ced71df7720f43bb6014275e9e99810dbc837051f9e9b712b2b3a", "d79bcde5cb11cecd1dfc6685b65690be5b6a611e"},
		{"fe8875acb38f684b2025d5472445b8e4745705a9e7adc9b0485a05df790df700", "0325fa3ffcac03b428f39039a446fb1129834288cdd8e77aeb2471f13482355076", "b6d080353f40deca2e67108087c356d3a1afcd64"},
		{"bdc6e0a69f2921a78e9af930111334a41d3fab44653c8de0775572c526feea2d", "03a43058440d49e1f8545ea40603813c7171f51020a13ee10be9532d166172a807", "31a064deead74de7b9453beb4f780416d8859d3b"},
		{"3e215c3d2a59626a669ed04ec1700f36c05c9b216e592f58bbfd3d8aa6ea25f9", "03ccc76db535eae90bd72a09f6c40affc1af4629aab6dffc26ba163b4798b8ffd3", "37524a360a40c682f201fb011db7bbc8c8a247c6"},
	}
}

func ed25519Keys() [10]devKey {
	return [10]devKey{
		{"a608e2130a0a3cb34f86e757303c862bee353d9ab77ba4387ec084f881d420d4", "0b3d4a18bb0013cf9bc80b988a3ea3043775438493534e4d04c1687e848164c8", ""},
		{"bbd0894de0b4ecfa862e963825c5448d2d17f807a16869526bff29185747acdb", "d9f8acac5501ecdd23263743445a31913881fbf78077d2863f6cec07a4c29ed9", ""},
		{"8fd50f886a2e7ed499e7686efd1436b50aa9b64b26e4ecc4e58ca26e6257b67d", "8d61ad3321f119b2224ce9d75da1132fd843e29cb5eb87ace6a61d9526b41923", ""},
		{"62c966ebd9dcc0fc16a553b2ef5b72d1dca05cdf5a181027e761171e9e947420", "cec23729fde1b44ce629f28d51562a7c8fad19f6233d122197d31c3083e83c89", ""},
		{"805c9f422fd9a768fdd8c68f4fe0c3d4a93af714ed147ab6aed5f0ee8e9ee165", "93ccf601eac58bbe3cdf2d7463714c0ec66079c77d91fde97c4b8852249136d3", ""},
		{"abfdb8bf0b46c0da5da8d764316f27f185af32357689f7e19cb9ec3e0f590775", "d70390ff7208352468173a3762ad1e62a2507aa6b7ab27029c09bf764ca0a79d", ""},
		{"ec299c9f17bb8bdd5f3a21f1c2bffb3ac86c22e84c325e92139813639c9c3507", "744e636f78ccc9091422fcad582f61e6b0a8ad83aaa760a79d844a2924adbfda", ""},
		{"cb833706d1df537f59c418a00e36159f67ce3760ce6bf661f11f6da2b11c2c5a", "99b6b48d00038a65d9342b37dea634d189de09a0ce68212401515bbc9dc93248", ""},
		{"9b6adacefbbecff03e4359098d084a3af8039ce7f29d95ed28c7ebdb83740c83", "231f98363b3478c21a0dee96a71b3cd5270e6a53ae1a1ad8fcf87b63b2a1b977", ""},
		{"9a07bbdbb62e24686d2a4259dc88e38438e2c7a1ba167b147ad30ac540b0a3cd", "529cc3c800fffb46c9c0b33bdd26293bf2e8d433557608e019f8010079c86ab8", ""},
	}
}

func mnemonicKeys() [10]devKey {
	return [10]devKey{
		{"ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80", "038318535b54105d4a7aae60c08fc45f9687181b4fdfc625bd1a753fa7397fed75", "f39fd6e51aad88f6f4ce6ab8827279cfffb92266"},
		{"59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d", "02ba5734d8f7091719471e7f7ed6b9df170dc70cc661ca05e688601ad984f068b0", "70997970c51812dc3a010c7d01b50e0d17dc79c8"},
		{"5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a", "039d9031e97dd78ff8c15aa86939de9b1e791066a0224e331bc962a2099a7b1f04", "3c44cdddb6a900fa2b585dd299e03d12fa4293bc"},
		{"7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6", "0220b871f3ced029e14472ec4ebc3c0448164942b123aa6af91a3386c1c403e0eb", "90f79bf6eb2c4f870365e785982e1f101e93b906"},
		{"47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a", "03bf6ee64a8d2fdc551ec8bb9ef862ef6b4bcb1805cdc520c3aa5866c0575fd3b5", "15d34aaf54267db7d7c367839aaf71a00a2c6a65"},
		{"8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba", "0337b84de6947b243626cc8b977bb1f1632610614842468dfa8f35dcbbc55a515e", "9965507d1a55bcc2695c58ba16fb37d819b0a4dc"},
		{"92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e", "029a4ab212cb92775d227af4237c20b81f4221e9361d29007dfc16c79186b577cb", "976ea74026e726554db657fa54763abd0c3a0aa9"},
		{"4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356", "0201f2bf1fa920e77a43c7aec2587d0b3814093420cc59a9b3ad66dd5734dda7be", "14dc79964da2c08b23698b3d3cc7ca32193d9955"},
		{"dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97", "03931e7fda8da226f799f791eefc9afebcd7ae2b1b19a03c5eaa8d72122d9fe74d", "23618e81e3f5cdf7f54c3d65f7fbc0abf5b21e8f"},
		{"2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6", "023255458e24278e31d5940f304b16300fdff3f6efd3e2a030b5818310ac67af45", "a0ee7a142d267c1f36714e4a8f75612f20a79720"},
	}
}
