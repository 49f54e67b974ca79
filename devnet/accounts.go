package devnet

import (
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/internal/hedera"
)

// Account is a funded development account, as a start-up message shows it.
type Account struct {
	ID         string `json:"id"`
	Address    string `json:"address"`    // with checksum; long-zero for accounts without alias
	PrivateKey string `json:"privateKey"` // 0x and 64 hexadecimal digits; published and worthless
	KeyType    string `json:"keyType"`    // ECDSA_SECP256K1 or ED25519
	Balance    int64  `json:"balance"`    // at the start, in ℏ
}

// Accounts returns the funded accounts, those an Ethereum wallet can use first.
func (n *Network) Accounts() []Account {
	var wallets, others []Account
	for _, a := range devaccounts.All() {
		account := shown(a)
		if a.EVMAddress() != a.ID.LongZero() {
			wallets = append(wallets, account)
		} else {
			others = append(others, account)
		}
	}
	return append(wallets, others...)
}

// Signers returns the accounts of Config.Signers.
func (n *Network) Signers() []Account {
	var list []Account
	for _, a := range devaccounts.Signers(n.cfg.Signers) {
		list = append(list, shown(a))
	}
	return list
}

func shown(a devaccounts.Account) Account {
	account := Account{
		ID: a.ID.String(), Address: a.EVMAddress().Hex(), PrivateKey: "0x" + a.PrivateKey,
		KeyType: "ECDSA_SECP256K1", Balance: int64(a.Balance / hedera.Hbar),
	}
	if len(a.PublicKey) == 32 {
		account.KeyType = "ED25519"
	}
	return account
}

// OperatorID is the account that pays for a relay's submissions by
// default: the first one with an EVM alias.
func OperatorID() string { return devaccounts.All()[0].ID.String() }

// OperatorKey is the private key of OperatorID, 0x and 64 hexadecimal digits.
func OperatorKey() string { return "0x" + devaccounts.All()[0].PrivateKey }
