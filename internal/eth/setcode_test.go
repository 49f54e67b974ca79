package eth

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"
)

// What makes a type 4 transaction undecodable is told in the words for it.
func TestSetCodeErrors(t *testing.T) {
	large := new(big.Int).Lsh(common.Big1, 64)
	larger := new(big.Int).Lsh(common.Big1, 256)
	const limit = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	for name, test := range map[string]struct {
		change func(*looseSetCode)
		code   int
		want   string // a prefix
	}{
		"nonce":    {func(tx *looseSetCode) { tx.Authorizations[1].Nonce = large }, CodeInvalidParams, "Invalid parameter authorizationList: authorization nonce '18446744073709551616' exceeds uint64 maximum of 18446744073709551615"},
		"chain id": {func(tx *looseSetCode) { tx.Authorizations[1].ChainID = larger }, CodeInvalidParams, "Invalid parameter authorizationList: authorization chainId '" + larger.String() + "' exceeds uint256 maximum of " + limit},
		"nonce comes first": {func(tx *looseSetCode) {
			tx.Authorizations[0].Nonce, tx.Authorizations[0].ChainID, tx.To = large, larger, nil
		}, CodeInvalidParams, "Invalid parameter authorizationList: authorization nonce"},
		"creation":             {func(tx *looseSetCode) { tx.To = nil }, CodeInvalidParams, "Invalid parameter to: type 4 transaction cannot be used to create contract"},
		"receiver of 19 bytes": {func(tx *looseSetCode) { tx.To = tx.To[1:] }, CodeServerError, "Invalid arguments: invalid transaction encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			zero := new(big.Int)
			tx := looseSetCode{ChainID: chain, Tip: zero, FeeCap: zero, To: testTo[:], Value: zero, V: zero, R: common.Big1, S: common.Big1}
			for range 2 {
				tx.Authorizations = append(tx.Authorizations, looseAuthorization{ChainID: chain, Nonce: zero, V: zero, R: common.Big1, S: common.Big1})
			}
			test.change(&tx)
			body, err := rlp.EncodeToBytes(&tx)
			if err != nil {
				t.Fatal(err)
			}
			_, err = DecodeTx(append([]byte{4}, body...))
			var client *Error
			if !errors.As(err, &client) || client.Code != test.code || !strings.HasPrefix(client.Message, test.want) {
				t.Errorf("%v, want %d %s", err, test.code, test.want)
			}
		})
	}
}
