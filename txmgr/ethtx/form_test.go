package ethtx_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/crypto/kzg4844"
	"github.com/holiman/uint256"

	"lockstep/internal/must"
	"lockstep/txmgr/ethtx"
)

// TestBlobsAreRefused: a blob has a fee of its own, which budgets and the fees of a replacement would leave
// out. So nothing with blobs is taken, in neither of its two forms.
func TestBlobsAreRefused(t *testing.T) {
	key := must.Get(crypto.GenerateKey())(t)
	form := ethtx.Form{ChainID: 1337}
	sign := func(tx types.TxData) []byte {
		return must.Get(types.MustSignNewTx(key, types.LatestSignerForChainID(big.NewInt(1337)), tx).MarshalBinary())(t)
	}
	one := uint256.NewInt(1)
	blob := types.BlobTx{
		ChainID: uint256.NewInt(1337), GasTipCap: one, GasFeeCap: one, Gas: 21000, Value: one, BlobFeeCap: one, BlobHashes: []common.Hash{{1}},
	}
	bare := blob
	blob.Sidecar = types.NewBlobTxSidecar(types.BlobSidecarVersion0, []kzg4844.Blob{{}}, []kzg4844.Commitment{{}}, []kzg4844.Proof{{}})
	for name, raw := range map[string][]byte{"without its blobs": sign(&bare), "with its blobs": sign(&blob)} {
		if _, err := form.Decode(raw); err == nil || !strings.Contains(err.Error(), "blob") {
			t.Errorf("%s: %v", name, err)
		}
	}
	to := common.Address{7}
	got, err := form.Decode(sign(&types.DynamicFeeTx{ChainID: big.NewInt(1337), GasTipCap: big.NewInt(2), GasFeeCap: big.NewInt(3), Gas: 21000, To: &to, Value: big.NewInt(1)}))
	if err != nil || got.Fees.Max.Int64() != 3 || got.Fees.Tip.Int64() != 2 || got.Gas != 21000 {
		t.Errorf("of type 2: %+v, %v", got, err)
	}
}

// An address in letters of both cases has a checksum, and a wrong one is refused: the digit or the letter that is wrong would be somebody else.
func TestChecksumsOfAddresses(t *testing.T) {
	const right = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" // EIP-55's first example
	for text, ok := range map[string]bool{
		right: true, strings.ToLower(right): true, "0x" + strings.ToUpper(right[2:]): true, "0X" + right[2:]: true,
		"0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed": false, "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAee": false, right[2:]: false, "": false,
	} {
		name, err := ethtx.Form{ChainID: 1337}.Account(text)
		if (err == nil) != ok || ok && name != strings.ToLower(right) {
			t.Errorf("%q: %q, %v", text, name, err)
		}
	}
}
