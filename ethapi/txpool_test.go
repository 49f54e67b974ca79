package ethapi

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/internal/relay/pending"
	"lockstep/submit"
)

// pooled signs a transaction of the usual sender.
func pooled(t *testing.T, data types.TxData) *eth.Tx {
	t.Helper()
	_, sign := senderKey()
	raw := must.Get(sign(data).MarshalBinary())(t)
	tx := must.Get(eth.DecodeTx(raw))(t)
	return tx
}

// newPool is a relay with transactions of three types on their way, of which the last
// one comes after a gap.
func newPool(t *testing.T, change ...func(*settings)) (*relay, []*eth.Tx) {
	t.Helper()
	to := common.HexToAddress("0x05FbA803Be258049A27B820088bab1cAD2058871")
	txs := []*eth.Tx{
		pooled(t, &types.LegacyTx{Nonce: 3, Gas: 21000, GasPrice: big.NewInt(71e10), To: &to, Value: big.NewInt(1e10)}),
		pooled(t, &types.AccessListTx{
			ChainID: big.NewInt(298), Nonce: 4, Gas: 60000, GasPrice: big.NewInt(72e10), Data: []byte{0xfe},
			AccessList: types.AccessList{{Address: to, StorageKeys: []common.Hash{{1}}}},
		}),
		pooled(t, &types.DynamicFeeTx{ChainID: big.NewInt(298), Nonce: 9, Gas: 21000, GasFeeCap: big.NewInt(73e10), GasTipCap: big.NewInt(5), To: &to}),
	}
	pool := pending.New(pending.Config{MaxEntries: 10, MaxBytes: 1 << 20, ExecutedTTL: 1e11}, pending.Deps{})
	for _, tx := range txs {
		pool.Add(tx)
	}
	offered := func(s *settings) { s.deps.Pool, s.deps.PoolAPI = pool, true }
	return newRelay(t, newMirrorNode(t), append([]func(*settings){offered}, change...)...), txs
}

// poolJSON is a listing with the fields of transactions that tell most.
type poolJSON = map[string]map[string]map[string]map[string]any

// They have no parameters, and say so.
func TestPoolParameters(t *testing.T) {
	r, _ := newPool(t)
	for _, method := range []string{"txpool_content", "txpool_inspect", "txpool_status"} {
		r.expect([3]string{method, `["0x1"]`, "-32602 too many arguments, want at most 0"})
	}
}

func TestPoolContent(t *testing.T) {
	sender, _ := senderKey()
	for profile, test := range map[string]struct {
		change  []func(*settings)
		third   string // where the transaction after the gap is
		block   any
		from    string // with a checksum, or without
		to      string // likewise
		pending string
		queued  string
	}{
		"ethereum": {third: "queued", block: nil, from: strings.ToLower(sender.Hex()), to: "0x05fba803be258049a27b820088bab1cad2058871", pending: "0x2", queued: "0x1"},
		"hiero":    {change: []func(*settings){hiero}, third: "pending", block: common.Hash{}.Hex(), from: sender.Hex(), to: "0x05FbA803Be258049A27B820088bab1cAD2058871", pending: "0x3", queued: "0x0"},
	} {
		t.Run(profile, func(t *testing.T) {
			r, txs := newPool(t, test.change...)
			var all poolJSON
			unmarshal(t, r.call("txpool_content", `[]`), &all)
			for i, nonce := range []string{"3", "4", "9"} {
				where := "pending"
				if i == 2 {
					where = test.third
				}
				got := all[where][sender.Hex()][nonce]
				to := any(test.to)
				if i == 1 {
					to = nil // it makes a contract
				}
				for field, want := range map[string]any{
					"hash": txs[i].Hash().Hex(), "blockHash": test.block, "blockNumber": nil, "transactionIndex": nil,
					"from": test.from, "to": to, "type": fmt.Sprintf("0x%x", i),
				} {
					if value, ok := got[field]; !ok || value != want {
						t.Errorf("nonce %s: %s = %v, want %v", nonce, field, value, want)
					}
				}
				// What an Ethereum library reads of it is what was sent.
				text, _ := json.Marshal(got)
				var decoded types.Transaction
				if err := json.Unmarshal(text, &decoded); err != nil || decoded.Hash() != txs[i].Hash() {
					t.Errorf("nonce %s decodes as %s, %v", nonce, decoded.Hash(), err)
				}
				_, parity := got["yParity"]
				_, list := got["accessList"]
				if typed := i > 0; parity != typed || list != typed {
					t.Errorf("nonce %s: yParity %t, accessList %t", nonce, parity, list)
				}
			}
			r.expect([3]string{"txpool_status", `[]`, fmt.Sprintf(`{"pending":"%s","queued":"%s"}`, test.pending, test.queued)})

			var of map[string]map[string]map[string]any
			unmarshal(t, r.call("txpool_contentFrom", `["`+strings.ToLower(sender.Hex())+`"]`), &of)
			for _, where := range []string{"pending", "queued"} {
				want := all[where][sender.Hex()]
				if want == nil {
					want = map[string]map[string]any{}
				}
				if diff := cmp.Diff(want, of[where]); diff != "" {
					t.Errorf("%s of the sender (-of all +of one)\n%s", where, diff)
				}
			}
			r.expect([3]string{"txpool_contentFrom", `["0x00000000000000000000000000000000000000aa"]`, `{"pending":{},"queued":{}}`})
		})
	}
}

func TestPoolInspect(t *testing.T) {
	sender, _ := senderKey()
	r, _ := newPool(t)
	r.expect([3]string{"txpool_inspect", `[]`, `{"pending":{"` + sender.Hex() + `":{` +
		`"3":"0x05FbA803Be258049A27B820088bab1cAD2058871: 10000000000 wei + 21000 gas × 710000000000 wei",` +
		`"4":"contract creation: 0 wei + 60000 gas × 720000000000 wei"}},` +
		`"queued":{"` + sender.Hex() + `":{"9":"0x05FbA803Be258049A27B820088bab1cAD2058871: 0 wei + 21000 gas × 730000000000 wei"}}}`})
}

// The methods are there if both the pool and the methods are switched on; parameters
// are checked first.
func TestPoolGates(t *testing.T) {
	for name, change := range map[string]func(*settings){
		"no pool": func(s *settings) { s.deps.Pool = nil },
		"no API":  func(s *settings) { s.deps.PoolAPI = false },
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newPool(t, change)
			const off = "-32601 Unsupported JSON-RPC method"
			r.expect(
				[3]string{"txpool_content", `[]`, off}, [3]string{"txpool_status", `[]`, off}, [3]string{"txpool_inspect", `[]`, off},
				[3]string{"txpool_contentFrom", `["0x00000000000000000000000000000000000000aa"]`, off},
				[3]string{"txpool_contentFrom", `[]`, "-32602 missing value for required argument 0"},
			)
		})
	}
}

// An empty pool lists nothing, in the shape of a list.
func TestEmptyPool(t *testing.T) {
	pool := pending.New(pending.Config{MaxEntries: 1, MaxBytes: 1}, pending.Deps{})
	r := newRelay(t, newMirrorNode(t), func(s *settings) { s.deps.Pool, s.deps.PoolAPI = pool, true })
	r.expect(
		[3]string{"txpool_content", `[]`, `{"pending":{},"queued":{}}`}, [3]string{"txpool_inspect", `[]`, `{"pending":{},"queued":{}}`},
		[3]string{"txpool_status", `[]`, `{"pending":"0x0","queued":"0x0"}`},
	)
}

// A client gets the hash or an error, never both, whatever the result also knows.
func TestHashOrError(t *testing.T) {
	hash := common.Hash{1}
	for _, outcome := range []submit.Outcome{submit.Unknown, submit.Reverted, submit.Executed} {
		if got, err := hashOrError(submit.Result{Outcome: outcome, Hash: hash}); got != hash || err != nil {
			t.Errorf("%s: %s, %v", outcome, got, err)
		}
	}
	refusal := eth.ErrNoNode
	if got, err := hashOrError(submit.Result{Outcome: submit.NotSent, Hash: hash, Err: refusal}); got != (common.Hash{}) || err != refusal { //nolint:errorlint // the very same
		t.Errorf("%s, %v", got, err)
	}
}
