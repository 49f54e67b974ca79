package mirrorrest_test

import (
	"bytes"
	"cmp"
	"crypto/sha512"
	"encoding/binary"
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
	"github.com/ethereum/go-ethereum/core/vm/program"
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
	fields.GasFeeCap = cmp.Or(fields.GasFeeCap, big.NewInt(710_000_000_000))
	fields.GasTipCap = cmp.Or(fields.GasTipCap, new(big.Int))
	fields.Gas = cmp.Or(fields.Gas, 1_000_000)
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
	return n.handle(core.BodyOf(&hapi.EthereumTransactionBody{
		EthereumData: raw, MaxGasAllowance: 100_000_000,
	}), decoded)
}

// transfer moves tinybar between accounts by a native transaction of the treasury.
func (n *network) transfer(to *hapi.AccountID, amount int64) *history.Record {
	n.t.Helper()
	return n.handle(core.BodyOf(&hapi.CryptoTransferTransactionBody{
		Transfers: &hapi.TransferList{AccountAmounts: []*hapi.AccountAmount{
			{AccountID: accountID(2), Amount: -amount},
			{AccountID: to, Amount: amount},
		}},
	}), nil)
}

func accountID(num int64) *hapi.AccountID { return hedera.Entity(num).AccountID() }

// handle gives a transaction paid by the treasury to the ledger.
func (n *network) handle(body *hapi.TransactionBody, ethereum *eth.Tx) *history.Record {
	n.t.Helper()
	n.starts++
	start := hedera.FromNanos(n.genesis.UnixNano() - int64(time.Minute) + n.starts)
	body.TransactionID = &hapi.TransactionID{
		AccountID:             accountID(2),
		TransactionValidStart: start.Message(),
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
	raise := program.New().Push(0).Op(vm.SLOAD).Push(1).Op(vm.ADD, vm.DUP1).Push(0).Op(vm.SSTORE).Push(0).Op(vm.MSTORE).
		Op(vm.CALLVALUE).Push(5).Op(vm.SSTORE).
		Op(vm.CALLER).Push(raisedTopic.Big()).Push(32).Push(0).Op(vm.LOG2).
		Op(vm.CALLER).Push(echoTopic.Big()).Push(0).Push(0).Op(vm.LOG2, vm.STOP).Bytes()
	reason := slices.Concat([]byte{0x08, 0xc3, 0x79, 0xa0}, common.LeftPadBytes([]byte{32}, 32), common.LeftPadBytes([]byte{7}, 32), common.RightPadBytes([]byte("no more"), 32))
	revert := program.New().Mstore(reason, 0).Push(len(reason)).Push(0).Op(vm.REVERT).Bytes()
	get := program.New().Push(0).Op(vm.SLOAD).Push(0).Op(vm.MSTORE).Return(0, 32).Bytes()

	p := unless(program.New(), program.New().Op(vm.CALLDATASIZE), raise)
	p.Push(0).Op(vm.CALLDATALOAD).Push(0).Op(vm.BYTE) // first byte
	p = unless(p, program.New().Op(vm.DUP1).Push(callRevert).Op(vm.SUB), revert)
	return unless(p, program.New().Push(callGet).Op(vm.SUB), get).Op(vm.INVALID).Bytes()
}

// unless runs code, which ends the call, where a condition is zero.
func unless(p, condition *program.Program, code []byte) *program.Program {
	const jump = 4 // bytes
	p.Append(condition.Bytes())
	p.Op(vm.PUSH2).Append(binary.BigEndian.AppendUint16(nil, uint16(p.Size()-1+jump+len(code)))).Op(vm.JUMPI)
	p.Append(code).Jumpdest()
	return p
}

// forwarderCode calls the address in its call data with all value and no data.
func forwarderCode() []byte {
	return program.New().Push(0).Push(0).Push(0).Push(0).Op(vm.CALLVALUE).Push(0).Op(vm.CALLDATALOAD, vm.GAS, vm.CALL, vm.POP, vm.STOP).Bytes()
}

// factoryCode creates a contract without code at every call.
func factoryCode() []byte {
	return program.New().Push(0).Push(0).Push(0).Op(vm.CREATE, vm.POP, vm.STOP).Bytes()
}

// initCode returns a runtime from memory.
func initCode(runtime []byte) []byte { return program.New().ReturnViaCodeCopy(runtime).Bytes() }

func zeros(n int) string { return strings.Repeat("0", n) }
