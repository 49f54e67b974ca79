package eth

import (
	"math"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/jsonx"
	"lockstep/internal/must"
)

// No object is longer than its JSONSize, with numbers as long as they can be; and objects of
// the usual kind are not much shorter.
func TestJSONSizeIsNeverTooShort(t *testing.T) {
	widest := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))
	number, data := uint64(math.MaxUint64), make([]byte, 10_000)
	log := &Log{Data: data, Topics: make([]common.Hash, 4), BlockNumber: number, BlockTime: number, TxIndex: number, Index: number}
	tx := &Transaction{
		BlockHash: &common.Hash{}, BlockNumber: &number, Index: &number, Type: types.SetCodeTxType, ChainID: widest, To: &common.Address{}, Nonce: number, Value: widest,
		Input: data, Gas: number, GasPrice: widest, MaxFee: widest, MaxTip: widest, AccessList: types.AccessList{{StorageKeys: make([]common.Hash, 50)}, {}},
		Authorizations: []Authorization{{ChainID: widest, Nonce: number, YParity: number, R: widest, S: widest}, {}}, V: widest, R: widest, S: widest,
	}
	receipt := &Receipt{
		BlockNumber: number, Index: number, Type: 255, To: &common.Address{}, ContractAddress: &common.Address{}, Status: number, GasUsed: number, CumulativeGasUsed: number,
		EffectiveGasPrice: widest, Logs: []*Log{log, log}, RevertReason: data,
	}
	block := Block{Number: number, Time: number, GasLimit: number, GasUsed: number, BaseFee: widest, Size: number, Transactions: []*Transaction{tx, tx, tx}}
	full := block
	full.Full = true
	for name, object := range map[string]jsonx.Sizer{
		"log": log, "logs": Logs{log, log, log}, "transaction": tx, "receipt": receipt, "receipts": Receipts{receipt, receipt},
		"block": &block, "full block": &full, "no logs": Logs(nil), "nothing of a transaction": &Transaction{},
	} {
		text := must.Get(object.AppendJSON(nil))(t)
		size := object.JSONSize()
		if size < len(text) {
			t.Errorf("%s: %d bytes where there may be %d", name, len(text), size)
		}
		if len(text) > len(data) && size > len(text)*5/4 {
			t.Errorf("%s: %d bytes where there may be %d, a quarter too many", name, len(text), size)
		}
	}
}
