package mirrorrest_test

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// A network is a real ledger with the API over it.
type network struct {
	t       testing.TB
	ledger  *ledger.Ledger
	handler http.Handler
	starts  int64 // valid starts given out, so that no two transactions are the same
	genesis hedera.Timestamp
}

func newNetwork(t testing.TB, cfg ledger.Config) *network {
	t.Helper()
	l := must.Get(ledger.New(cfg))(t)
	n := &network{t: t, ledger: l, genesis: l.View().Time()}
	n.handler = mirrorrest.New(mirrorrest.Config{View: l.View, Log: slog.New(slog.DiscardHandler)})
	return n
}

const blockTime = 2 * time.Second

// newSlowNetwork is a network whose blocks take blockTime. It belongs in a bubble
// of synctest, where closeBlock moves time.
func newSlowNetwork(t *testing.T) *network {
	t.Helper()
	n := newNetwork(t, ledger.Config{BlockTime: blockTime})
	go func() {
		if err := n.ledger.Run(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	return n
}

// closeBlock waits until the open block is over.
func (n *network) closeBlock() {
	<-time.After(blockTime + time.Millisecond) // less than makes a block without transactions
	synctest.Wait()
}

// The first development accounts have EVM aliases.
func account(i int) devaccounts.Account { return devaccounts.All()[i] }

// call signs and handles an Ethereum transaction of the i-th development account,
// with the nonce that is its turn.
func (n *network) call(i int, fields *types.DynamicFeeTx) *history.Record {
	n.t.Helper()
	sender, ok := n.ledger.Handled().Account(account(i).ID)
	if !ok {
		n.t.Fatalf("no account %s", account(i).ID)
	}
	fields.Nonce = uint64(sender.Nonce)
	return n.send(i, fields)
}

// send is call with the nonce in the fields.
func (n *network) send(i int, fields *types.DynamicFeeTx) *history.Record {
	n.t.Helper()
	fields.ChainID = big.NewInt(298)
	if fields.GasFeeCap == nil {
		fields.GasFeeCap = big.NewInt(710_000_000_000)
	}
	if fields.GasTipCap == nil {
		fields.GasTipCap = new(big.Int)
	}
	if fields.Gas == 0 {
		fields.Gas = 1_000_000
	}
	return n.signAndHandle(i, fields)
}

func (n *network) signAndHandle(i int, fields types.TxData) *history.Record {
	n.t.Helper()
	return n.signFor(types.LatestSignerForChainID(big.NewInt(298)), i, fields)
}

// signFor is signAndHandle for any chain.
func (n *network) signFor(signer types.Signer, i int, fields types.TxData) *history.Record {
	n.t.Helper()
	key := must.Get(crypto.HexToECDSA(account(i).PrivateKey))(n.t)
	tx := must.Get(types.SignNewTx(key, signer, fields))(n.t)
	raw := must.Get(tx.MarshalBinary())(n.t)
	decoded := must.Get(eth.DecodeTx(raw))(n.t)
	return n.handle(&hapi.TransactionBody{
		Data: &hapi.TransactionBody_EthereumTransaction{EthereumTransaction: &hapi.EthereumTransactionBody{
			EthereumData: raw, MaxGasAllowance: 100_000_000,
		}},
	}, decoded)
}

// transfer moves tinybar between accounts by a native transaction of the treasury.
func (n *network) transfer(to *hapi.AccountID, amount int64) *history.Record {
	n.t.Helper()
	return n.handle(&hapi.TransactionBody{
		Data: &hapi.TransactionBody_CryptoTransfer{CryptoTransfer: &hapi.CryptoTransferTransactionBody{
			Transfers: &hapi.TransferList{AccountAmounts: []*hapi.AccountAmount{
				{AccountID: accountID(2), Amount: -amount},
				{AccountID: to, Amount: amount},
			}},
		}},
	}, nil)
}

func accountID(num int64) *hapi.AccountID {
	return &hapi.AccountID{Account: &hapi.AccountID_AccountNum{AccountNum: num}}
}

// handle gives a transaction paid by the treasury to the ledger.
func (n *network) handle(body *hapi.TransactionBody, ethereum *eth.Tx) *history.Record {
	n.t.Helper()
	n.starts++
	start := hedera.FromNanos(n.genesis.UnixNano() - int64(time.Minute) + n.starts)
	body.TransactionID = &hapi.TransactionID{
		AccountID:             accountID(2),
		TransactionValidStart: &hapi.Timestamp{Seconds: start.Seconds, Nanos: start.Nanos},
	}
	body.NodeAccountID = accountID(3)
	body.TransactionFee = 1_000_000_000
	body.TransactionValidDuration = &hapi.Duration{Seconds: 120}
	body.Memo = new("Grüße")
	raw := must.Get(proto.Marshal(body))(n.t)
	private := must.Get(hedera.ParsePrivateKey(devaccounts.OperatorKey, hedera.FormatHexEd25519))(n.t)
	signature := must.Get(private.Sign(raw))(n.t)
	return n.ledger.Handle(&core.Submission{
		Body:  body,
		ID:    hedera.TransactionID{Payer: hedera.Entity(2), ValidStart: start},
		Payer: hedera.Entity(2),
		Hash:  sha512.Sum384(raw),
		Size:  len(raw) + 100,
		Signatures: hapikey.NewSignatures(raw, []*hapi.SignaturePair{{
			PubKeyPrefix: private.Public(),
			Signature:    &hapi.SignaturePair_Ed25519{Ed25519: signature},
		}}),
		Node:     hedera.Entity(3),
		Ethereum: ethereum,
	})
}

// deploy creates a contract and returns its address and id.
func (n *network) deploy(i int, runtime []byte) (common.Address, hedera.ID) {
	n.t.Helper()
	rec := n.mustSucceed(n.call(i, &types.DynamicFeeTx{Data: initCode(runtime), Gas: 2_000_000}))
	return rec.Result.Address, rec.Result.Target
}

func (n *network) mustSucceed(rec *history.Record) *history.Record {
	n.t.Helper()
	if !hedera.Succeeded(rec.Status) {
		message := ""
		if rec.Result != nil {
			message = rec.Result.ErrorMessage
		}
		n.t.Fatalf("%s: %s %s", rec.Kind, rec.Status, message)
	}
	return rec
}

// response is an answer, read.
type response struct {
	status int
	header http.Header
	body   []byte
}

func (n *network) do(method, target, body string, header ...string) response {
	n.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(n.t.Context(), method, target, reader)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	n.handler.ServeHTTP(w, r)
	return response{w.Code, w.Header(), w.Body.Bytes()}
}

// get reads a path below /api/v1/ and decodes the answer, numbers as they are
// written.
func (n *network) get(path string, status int) map[string]any {
	n.t.Helper()
	return n.decode(n.do(http.MethodGet, "/api/v1/"+path, ""), path, status)
}

// post calls contracts/call.
func (n *network) post(body string, status int) map[string]any {
	n.t.Helper()
	r := n.do(http.MethodPost, "/api/v1/contracts/call", body, "Content-Type", "application/json")
	return n.decode(r, body, status)
}

func (n *network) decode(r response, what string, status int) map[string]any {
	n.t.Helper()
	if r.status != status {
		n.t.Fatalf("%s: status %d, want %d: %s", what, r.status, status, r.body)
	}
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.UseNumber()
	var out map[string]any
	if err := decoder.Decode(&out); err != nil {
		n.t.Fatalf("%s: %v: %s", what, err, r.body)
	}
	return out
}

// list reads the rows of a list, all pages of it.
func (n *network) list(path, key string) []map[string]any {
	n.t.Helper()
	var rows []map[string]any
	for pages := 0; ; pages++ {
		if pages > 500 {
			n.t.Fatalf("%s does not end", path)
		}
		page := n.get(path, http.StatusOK)
		for _, row := range page[key].([]any) {
			rows = append(rows, row.(map[string]any))
		}
		links, _ := page["links"].(map[string]any) // a transaction has none
		next, _ := links["next"].(string)
		if next == "" {
			return rows
		}
		var below bool
		if path, below = strings.CutPrefix(next, "/api/v1/"); !below {
			n.t.Fatalf("link %q is not below the base", next)
		}
	}
}

// fields compares some fields of an object, in the text that JSON has for them.
func (n *network) fields(what string, got map[string]any, want map[string]string) {
	n.t.Helper()
	for name, value := range want {
		if text(got[name]) != value {
			n.t.Errorf("%s: %s is %s, want %s", what, name, text(got[name]), value)
		}
	}
}

// column is one field of every row.
func column(rows []map[string]any, name string) []any {
	var out []any
	for _, row := range rows {
		out = append(out, row[name])
	}
	return out
}

func reversed[T any](list []T) []T {
	out := make([]T, 0, len(list))
	for _, l := range slices.Backward(list) {
		out = append(out, l)
	}
	return out
}

// text is how JSON writes a value, for comparisons across types.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// normal is JSON as nested maps, for comparisons that do not depend on the order
// of keys; numbers stay as they are written.
func normal(t *testing.T, raw string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()
	var out any
	if err := decoder.Decode(&out); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return out
}

func weibar(tinybars int64) *big.Int { return hedera.Tinybar(tinybars).Weibar() }

func aliasID(a common.Address) *hapi.AccountID {
	return &hapi.AccountID{Account: &hapi.AccountID_Alias{Alias: a.Bytes()}}
}

// The contracts of these tests, written in the EVM's own instructions.

var (
	raisedTopic = common.HexToHash("0x00000000000000000000000000000000000000000000000000000000000000a1")
	echoTopic   = common.HexToHash("0xf1000000000000000000000000000000000000000000000000000000000000a2")
)

// selectors of the counter contract: the first byte of the call data.
const (
	callRevert = 1 // reverts with Error("no more")
	callGet    = 2 // returns the counter
)

// counterCode counts its calls in slot 0, keeps the last value sent in slot 5, and
// emits two events each time.
func counterCode() []byte {
	var a assembly
	a.op(vm.CALLDATASIZE, vm.ISZERO).jumpIf("raise")
	a.push(0).op(vm.CALLDATALOAD).push(0).op(vm.BYTE) // first byte
	a.op(vm.DUP1).push(callRevert).op(vm.EQ).jumpIf("revert")
	a.push(callGet).op(vm.EQ).jumpIf("get")
	a.op(vm.INVALID)

	a.label("raise")
	a.push(0).op(vm.SLOAD).push(1).op(vm.ADD, vm.DUP1).push(0).op(vm.SSTORE)
	a.push(0).op(vm.MSTORE)
	a.op(vm.CALLVALUE).push(5).op(vm.SSTORE)
	a.op(vm.CALLER).word(raisedTopic).push(32).push(0).op(vm.LOG2)
	a.op(vm.CALLER).word(echoTopic).push(0).push(0).op(vm.LOG2)
	a.op(vm.STOP)

	a.label("get")
	a.push(0).op(vm.SLOAD).push(0).op(vm.MSTORE).push(32).push(0).op(vm.RETURN)

	a.label("revert")
	a.word(common.HexToHash("0x08c379a0" + zeros(56))).push(0).op(vm.MSTORE)
	a.push(32).push(4).op(vm.MSTORE)
	a.push(7).push(36).op(vm.MSTORE)
	a.word(common.HexToHash("0x6e6f206d6f7265" + zeros(50))).push(68).op(vm.MSTORE)
	a.push(100).push(0).op(vm.REVERT)
	return a.assemble()
}

// forwarderCode calls the address in its call data with all value and no data.
func forwarderCode() []byte {
	var a assembly
	a.push(0).push(0).push(0).push(0).op(vm.CALLVALUE)
	a.push(0).op(vm.CALLDATALOAD, vm.GAS, vm.CALL, vm.POP, vm.STOP)
	return a.assemble()
}

// factoryCode creates a contract without code at every call.
func factoryCode() []byte {
	var a assembly
	a.push(0).push(0).push(0).op(vm.CREATE, vm.POP, vm.STOP)
	return a.assemble()
}

// initCode returns a runtime from memory.
func initCode(runtime []byte) []byte {
	head := []byte{
		byte(vm.PUSH2), byte(len(runtime) >> 8), byte(len(runtime)), byte(vm.DUP1),
		byte(vm.PUSH1), 12, byte(vm.PUSH1), 0, byte(vm.CODECOPY), byte(vm.PUSH1), 0, byte(vm.RETURN),
	}
	return append(head, runtime...)
}

func zeros(n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = '0'
	}
	return string(out)
}

// assembly is code with labels, all of them below 256.
type assembly struct {
	code   []byte
	labels map[string]byte
	jumps  map[int]string
}

func (a *assembly) op(ops ...vm.OpCode) *assembly {
	for _, o := range ops {
		a.code = append(a.code, byte(o))
	}
	return a
}

func (a *assembly) push(b byte) *assembly {
	a.code = append(a.code, byte(vm.PUSH1), b)
	return a
}

func (a *assembly) word(h common.Hash) *assembly {
	a.code = append(append(a.code, byte(vm.PUSH32)), h[:]...)
	return a
}

func (a *assembly) jumpIf(label string) *assembly {
	if a.jumps == nil {
		a.jumps = map[int]string{}
	}
	a.push(0)
	a.jumps[len(a.code)-1] = label
	return a.op(vm.JUMPI)
}

func (a *assembly) label(name string) *assembly {
	if a.labels == nil {
		a.labels = map[string]byte{}
	}
	a.labels[name] = byte(len(a.code))
	return a.op(vm.JUMPDEST)
}

func (a *assembly) assemble() []byte {
	for at, label := range a.jumps {
		a.code[at] = a.labels[label]
	}
	if len(a.code) > 256 {
		panic("labels do not fit in a byte")
	}
	return a.code
}
