package near

import (
	"crypto/sha256"

	"lockstep/internal/near"
)

// Developer is an account whose secret key is public.
type Developer struct {
	ID        string `json:"id"`
	SecretKey string `json:"secretKey"`
	PublicKey string `json:"publicKey"`
	Contract  string `json:"contract,omitempty"`
}

// developerNEAR is what each of them has.
const developerNEAR = 1_000_000

// Developers are accounts for development, with the chain's own for each. Their keys are
// made from their names: never use them elsewhere.
func Developers() ([]Developer, []Account, error) {
	list := []Developer{
		{ID: "test", Contract: Registrar},
		{ID: "relayer.test"},
		{ID: "alice.test"},
		{ID: "bob.test"},
		{ID: "counter.test", Contract: Counter},
		{ID: "failing.test", Contract: Failing},
	}
	accounts := make([]Account, len(list))
	for i := range list {
		seed := sha256.Sum256([]byte("a public key for development: " + list[i].ID))
		secret, err := near.ParseSecretKey("ed25519:" + near.EncodeBase58(seed[:]))
		if err != nil {
			return nil, nil, err
		}
		public := secret.Public()
		list[i].SecretKey = "ed25519:" + near.EncodeBase58(append(seed[:], public.Bytes()...))
		list[i].PublicKey = public.String()
		accounts[i] = Account{ID: list[i].ID, Key: public, NEAR: developerNEAR, Contract: list[i].Contract}
	}
	return list, accounts, nil
}
