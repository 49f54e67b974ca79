package app_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/config"
	"lockstep/devnet"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/txmgr"
	"lockstep/txmgr/ethchain"
	"lockstep/txmgr/service"
)

// trial is a transaction through a network in trouble, and what is to become of it.
type trial struct {
	rules    string // of the trouble, as package faults reads them
	settings []string
	tls      bool
	early    bool                          // the answer does not wait for the outcome
	tx       func(*account, uint64) string // nil: a good one

	code            int    // of the answer; 0: the hash
	message, status string // as in row
	outcome         string // as it is counted; "open": there is none when the answer goes back
	trace           string // status of the record
	spent           bool   // the nonce
	offers          int64
}

// Answers to what every trial sends.
const (
	unknown = "Request timeout. The transaction was submitted and its outcome is not known yet; look for its receipt before sending it again."
	noNode  = "No consensus node could be reached. Nothing was submitted; send it again."
)

// impatient settings are for what is only known to be lost when time is up.
var impatient = []string{"SDK_REQUEST_TIMEOUT=8000", "SDK_GRPC_DEADLINE=4000"}

// Every fault of the network, wherever it strikes, leads to one of the outcomes: what the
// client is told, what the record says, and which nonce the lane goes on with all agree
// with what happened. Trials whose names begin with BUG are those where established relays
// answer with the hash of a transaction that was never executed.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	executed := func(rules string, offers int64, settings ...string) trial {
		return trial{rules: rules, settings: settings, outcome: "executed", trace: "sent", spent: true, offers: offers}
	}
	// Refused by a node, or by consensus.
	refused := func(rules string, code int, message, status string, offers int64, settings ...string) trial {
		return trial{rules: rules, settings: settings, code: code, message: message, status: status, outcome: "rejected", trace: "rejected", offers: offers}
	}
	// It left, and nobody says what became of it.
	open := func(rules string, offers int64, settings ...string) trial {
		return trial{rules: rules, settings: settings, code: -32010, message: unknown, outcome: "open", trace: "timedout", offers: offers}
	}
	// The mirror node did not tell what has to be known beforehand.
	unsent := func(rules string, code int, message string, settings ...string) trial {
		return trial{rules: rules, settings: settings, code: code, message: message, outcome: "not_sent", trace: "rejected"}
	}
	upstream := func(rules string, settings ...string) trial {
		return unsent(rules, -32020, "Mirror node upstream failure: statusCode=…", settings...)
	}
	early := func(t trial) trial { t.early = true; return t }
	overTLS := func(t trial) trial { t.tls = true; return t }
	const poor, nothingTaken = "INSUFFICIENT_PAYER_BALANCE", "the consensus node did not accept the transaction"
	const notExecuted = "the network refused it at consensus; it was not executed"
	for name, trial := range map[string]trial{
		"no fault": executed(`[]`, 1),
		"reverted": {rules: `[]`, tx: reverting, outcome: "reverted", trace: "sent", spent: true, offers: 1},

		// Its status has the name of a refusal, and it was run.
		"BUG destroyed for nobody": {rules: `[]`, tx: destroyedForNobody, outcome: "reverted", trace: "sent", spent: true, offers: 1},
		// It was not run, and is in a block.
		"nobody pays for it": {rules: `[]`, tx: free, settings: []string{"PAYMASTER_ENABLED=true", `PAYMASTER_WHITELIST=["*"]`, "MAX_GAS_ALLOWANCE_HBAR=0"}, outcome: "reverted", trace: "sent", offers: 1},

		// The node's answer.
		"submit: busy for a while":           executed(`[{"at":"submit","status":"BUSY","times":2}]`, 3),
		"submit: not active at first":        executed(`[{"at":"submit","status":"PLATFORM_NOT_ACTIVE","times":1}]`, 2),
		"submit: not created at first":       executed(`[{"at":"submit","status":"PLATFORM_TRANSACTION_NOT_CREATED","times":1}]`, 2),
		"submit: wrong account at first":     executed(`[{"at":"submit","status":"INVALID_NODE_ACCOUNT","times":1}]`, 2),
		"submit: expired at first":           executed(`[{"at":"submit","status":"TRANSACTION_EXPIRED","times":1}]`, 2),
		"submit: starts too late at first":   executed(`[{"at":"submit","status":"INVALID_TRANSACTION_START","times":1}]`, 2),
		"submit: fate unknown, but taken":    executed(`[{"at":"submit","dropAfter":true,"times":1},{"at":"submit","status":"UNKNOWN"}]`, 1),
		"BUG submit: busy for ever":          refused(`[{"at":"submit","status":"BUSY"}]`, -32003, "Transaction rejected: BUSY - the consensus nodes take no transactions at the moment; nothing was submitted, send it again", "BUSY", 0, impatient...),
		"BUG submit: starts too late always": refused(`[{"at":"submit","status":"INVALID_TRANSACTION_START"}]`, -32000, "Consensus node error: INVALID_TRANSACTION_START (5): "+nothingTaken, "INVALID_TRANSACTION_START", 0),
		"BUG submit: operator is poor":       refused(`[{"at":"submit","status":"INSUFFICIENT_PAYER_BALANCE"}]`, -32000, "Consensus node error: INSUFFICIENT_PAYER_BALANCE (10): "+nothingTaken, poor, 1),
		"submit: not active for ever":        refused(`[{"at":"submit","status":"PLATFORM_NOT_ACTIVE"}]`, -32000, "Consensus node error: PLATFORM_NOT_ACTIVE (…", "PLATFORM_NOT_ACTIVE", 0, impatient...),
		"submit: taken for a duplicate":      refused(`[{"at":"submit","status":"DUPLICATE_TRANSACTION"}]`, -32000, "Consensus node error: DUPLICATE_TRANSACTION (11): "+nothingTaken, "DUPLICATE_TRANSACTION", 1),

		// The connection.
		"submit: slow":                      executed(`[{"at":"submit","delay":"300ms"}]`, 1),
		"submit: broken before, once":       executed(`[{"at":"submit","dropBefore":true,"times":1}]`, 2),
		"submit: broken after":              executed(`[{"at":"submit","dropAfter":true,"times":1}]`, 1),
		"submit: sent away":                 executed(`[{"at":"submit","goAway":true,"delay":"20ms"}]`, 1),
		"submit: sent away, and broken":     executed(`[{"at":"submit","goAway":true,"dropAfter":true}]`, 1),
		"submit: over TLS":                  overTLS(executed(`[{"at":"submit","dropBefore":true,"times":1}]`, 2)),
		"submit: broken before, always":     open(`[{"at":"submit","dropBefore":true}]`, 0, impatient...),
		"submit: too slow":                  open(`[{"at":"submit","delay":"1m"}]`, 0, impatient...),
		"BUG submit: an error of gRPC":      open(`[{"at":"submit","grpc":"INTERNAL"}]`, 0, impatient...),
		"BUG submit: permission denied":     open(`[{"at":"submit","grpc":"PERMISSION_DENIED"}]`, 0, impatient...),
		"BUG submit: cancelled":             open(`[{"at":"submit","grpc":"CANCELLED"}]`, 0, impatient...),
		"submit: an error of gRPC, once":    executed(`[{"at":"submit","grpc":"RESOURCE_EXHAUSTED","times":1}]`, 2),
		"BUG submit: not a node":            {rules: `[{"at":"submit","grpc":"UNIMPLEMENTED"}]`, settings: impatient, code: -32000, message: noNode, outcome: "not_sent", trace: "rejected"},
		"submit: broken after, refused":     refused(`[{"at":"submit","dropAfter":true,"outcome":"CONSENSUS_GAS_EXHAUSTED"}]`, -32003, "Transaction rejected: CONSENSUS_GAS_EXHAUSTED", "CONSENSUS_GAS_EXHAUSTED", 1),
		"submit: broken after, always dark": executed(`[{"at":"submit","dropAfter":true},{"at":"receipt","dropBefore":true}]`, 0, "SDK_MAX_ATTEMPTS=1"),

		// What consensus does with it.
		"consensus: never sees it":   open(`[{"at":"submit","vanish":true}]`, 1, impatient...),
		"consensus: wrong nonce":     refused(`[{"at":"submit","outcome":"WRONG_NONCE"}]`, -32003, "Transaction rejected: WRONG_NONCE", "WRONG_NONCE", 1),
		"BUG consensus: throttled":   refused(`[{"at":"submit","outcome":"THROTTLED_AT_CONSENSUS"}]`, -32003, "Transaction rejected: THROTTLED_AT_CONSENSUS", "THROTTLED_AT_CONSENSUS", 1),
		"consensus: too much gas":    refused(`[{"at":"submit","outcome":"MAX_GAS_LIMIT_EXCEEDED"}]`, -32003, "Transaction rejected: MAX_GAS_LIMIT_EXCEEDED", "MAX_GAS_LIMIT_EXCEEDED", 1),
		"consensus: a duplicate":     refused(`[{"at":"submit","outcome":"DUPLICATE_TRANSACTION"}]`, -32000, "Consensus node error: DUPLICATE_TRANSACTION (11): "+notExecuted, "DUPLICATE_TRANSACTION", 1),
		"consensus: came too late":   refused(`[{"at":"submit","outcome":"TRANSACTION_EXPIRED"}]`, -32000, "Consensus node error: TRANSACTION_EXPIRED (4): "+notExecuted, "TRANSACTION_EXPIRED", 1),
		"BUG consensus: poor":        refused(`[{"at":"submit","outcome":"INSUFFICIENT_PAYER_BALANCE"}]`, -32000, "Consensus node error: INSUFFICIENT_PAYER_BALANCE (10): "+notExecuted, poor, 1),
		"consensus: refused, later":  early(trial{rules: `[{"at":"submit","outcome":"MAX_GAS_LIMIT_EXCEEDED"}]`, settings: []string{"SEND_RAW_TRANSACTION_RETURNS=accepted"}, outcome: "rejected", trace: "rejected", offers: 1}),
		"consensus: executed, later": early(executed(`[]`, 1, "SEND_RAW_TRANSACTION_RETURNS=accepted")),
		"consensus: in background":   early(executed(`[{"at":"submit","status":"BUSY","times":1}]`, 2, "USE_ASYNC_TX_PROCESSING=true")),

		// The verdict.
		"receipt: busy":            executed(`[{"at":"receipt","status":"BUSY","times":3}]`, 1),
		"receipt: slow":            executed(`[{"at":"receipt","delay":"300ms"}]`, 1),
		"receipt: broken":          executed(`[{"at":"receipt","dropBefore":true,"times":3}]`, 1),
		"receipt: an error":        executed(`[{"at":"receipt","grpc":"UNAVAILABLE","times":3}]`, 1),
		"receipt: broken for ever": executed(`[{"at":"receipt","dropBefore":true}]`, 1), // the mirror node tells
		"receipt: not yet, always": {rules: `[{"at":"receipt","status":"UNKNOWN"},{"at":"mirror","path":"/contracts/results/","httpStatus":404},{"at":"mirror","path":"/transactions/","httpStatus":404}]`, settings: impatient, code: -32010, message: unknown, outcome: "open", trace: "timedout", spent: true, offers: 1},

		// What is looked up beforehand.
		"mirror: overloaded":        upstream(`[{"at":"mirror","httpStatus":429}]`),
		"mirror: broken":            upstream(`[{"at":"mirror","httpStatus":500}]`),
		"mirror: away":              upstream(`[{"at":"mirror","httpStatus":503}]`),
		"mirror: disconnected":      upstream(`[{"at":"mirror","drop":true}]`),
		"mirror: cut":               upstream(`[{"at":"mirror","cut":true}]`),
		"mirror: garbage":           upstream(`[{"at":"mirror","garbage":true}]`),
		"mirror: hangs":             upstream(`[{"at":"mirror","hang":true}]`, "MIRROR_NODE_TIMEOUT=8000"),
		"mirror: too slow":          upstream(`[{"at":"mirror","delay":"1m"}]`, "MIRROR_NODE_TIMEOUT=8000"),
		"mirror: slow":              executed(`[{"at":"mirror","delay":"300ms"}]`, 1),
		"mirror: slow in the body":  executed(`[{"at":"mirror","pause":"300ms"}]`, 1),
		"mirror: broken, asked on":  executed(`[{"at":"mirror","httpStatus":503,"times":1}]`, 1, "MIRROR_NODE_RETRIES=2", "MIRROR_NODE_RETRY_CODES=[503]"),
		"mirror: no account so far": unsent(`[{"at":"mirror","path":"/accounts/","httpStatus":404}]`, -32001, "Requested resource not found. address '…"),
		"mirror: no price so far":   unsent(`[{"at":"mirror","path":"/network/fees","httpStatus":404}]`, -32603, "Error invoking RPC: Failed to retrieve gas price from network fees"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.run(t)
		})
	}
}

func (want trial) run(t *testing.T) {
	w := newWorld(t, lagging, func(c *devnet.Config) { c.Nodes, c.TLS = 2, true })
	// What each fault does by itself, so nothing is sent again: recovery has tests of its own.
	settings := []string{"NONCE_RECOVERY_MS=0", "ENABLE_NONCE_ORDERING=true", "TX_STATUS_TRACING=true", "SDK_MAX_ATTEMPTS=4", "READ_YOUR_WRITES_WAIT_MS=60000"}
	settings = append(settings, want.settings...)
	if want.tls {
		settings = append(settings, "HEDERA_NETWORK="+asText(t, w.net.TLSNodes()), "HEDERA_NODE_CERT_HASHES="+asText(t, w.net.CertHashes()), "CLIENT_TRANSPORT_SECURITY=true")
	}
	r, a := w.relay(t, settings...), w.account(t)
	must.Do(t, w.rules.Set([]byte(want.rules)))
	if want.tx == nil {
		want.tx = good
	}
	raw := want.tx(a, 0)
	row{code: want.code, message: want.message, status: want.status}.check(t, r.call("eth_sendRawTransaction", raw), raw)
	if want.outcome == "open" {
		if got := r.outcomes(); len(got) != 0 {
			t.Errorf("an outcome that is not known is counted as %q", got)
		}
	} else {
		r.until("the outcome", func() bool { return len(r.log.with(outcomeLine)) > 0 })
		if got := r.outcomes(); len(got) != 1 || got[0] != want.outcome {
			t.Errorf("outcomes %q, want %q", got, want.outcome)
		}
	}
	want.checkLog(t, r, raw)
	if got := w.offered.Load(); want.offers != 0 && got != want.offers {
		t.Errorf("offered to nodes %d times, want %d", got, want.offers)
	}
	record := r.record(decode(t, raw).Hash())
	if record.Status != want.trace || record.HederaStatus != want.status && want.status != "" {
		t.Errorf("the record says %s %s, want %s", record.Status, record.HederaStatus, want.trace)
	}
	if id := record.TransactionID; id != "" && !transactionID.MatchString(id) {
		t.Errorf("transaction id %q", id)
	}
	must.Do(t, w.rules.Set([]byte("[]")))
	executed := int64(0)
	if want.spent {
		executed = 1
	}
	if got := w.nonce(t, a); !want.early && got != executed {
		t.Errorf("the network executed %d, want %d", got, executed)
	}
	// A look-up of the first transaction may have been asked again while the fault lasted; who asks the same meanwhile shares its answer.
	r.until("nothing waits for an answer that the fault holds up", func() bool {
		return r.call("eth_gasPrice").Error == nil && r.call("eth_getTransactionCount", a.address, "latest").Error == nil && r.call("eth_getBalance", a.address, "latest").Error == nil
	})
	want.goOn(t, r, a)
	r.until("the next transaction is executed", func() bool { return w.nonce(t, a) == executed+1 })
}

// destroyedForNobody creates a contract that destroys itself in favour of an account that does not exist.
func destroyedForNobody(a *account, next uint64) string {
	data := a.pay(next)
	data.To, data.Value, data.Data = nil, nil, common.FromHex("73abcdef0000000000000000000000000000000001ff")
	return a.raw(data)
}

// free offers nothing for its gas.
func free(a *account, next uint64) string {
	data := a.pay(next)
	data.GasFeeCap, data.GasTipCap = new(big.Int), nil
	return a.raw(data)
}

const outcomeLine = "level=INFO msg=transaction "

// checkLog looks for the one line that every outcome gets, and for what must not be there.
func (want trial) checkLog(t *testing.T, r *relay, raw string) {
	t.Helper()
	lines := r.log.with(outcomeLine)
	switch {
	case want.outcome == "open":
		if len(lines) != 0 {
			t.Errorf("an outcome that is not known is logged: %q", lines)
		}
	case len(lines) != 1 || !strings.Contains(lines[0], "outcome="+want.outcome+" hash="+decode(t, raw).Hash().Hex()):
		t.Errorf("logged %q, want one line with the outcome %s", lines, want.outcome)
	}
	if lines := r.log.with(raw[2:]); len(lines) != 0 {
		t.Errorf("the transaction itself is in the log: %q", lines)
	}
}

var transactionID = regexp.MustCompile(`^0\.0\.\d{1,10}@\d{1,10}\.\d{1,9}$`)

// goOn sends what the sender sends next, when all is well again: one transaction with the
// wrong nonce, which is refused, and one with the right one, which is executed. The mirror
// node lags, so it is the lane that knows.
func (want trial) goOn(t *testing.T, r *relay, a *account) {
	t.Helper()
	next, wrong := uint64(0), row{code: -32000, message: "Nonce too high. Provided nonce: 1, current nonce: 0…"}
	if want.spent {
		next, wrong = 1, row{code: -32000, message: "Nonce too low. Provided nonce: 0, current nonce: 1"}
	}
	if !want.early {
		if got := r.send(a.sign(another(a, 1-next))); got.Error == nil || got.Error.Code != wrong.code || !matches(got.Error.Message, wrong.message) {
			t.Errorf("with the wrong nonce: %s, want %s", got, wrong.message)
		}
	}
	if got := r.send(a.sign(another(a, next))); got.Error != nil {
		t.Errorf("the next transaction: %s", got)
	}
}

// another is a different transaction with the same nonce.
func another(a *account, nonce uint64) *types.DynamicFeeTx {
	data := a.pay(nonce)
	data.Gas++
	return data
}

// nonce asks the network itself how many transactions of an account it executed.
func (w *world) nonce(t *testing.T, a *account) int64 {
	t.Helper()
	account, ok := w.net.Ledger().Handled().AccountByAddress(a.address)
	if !ok {
		t.Fatalf("no account %s", a.address)
	}
	return account.Nonce
}

// outcomes are those that the relay has counted so far.
func (r *relay) outcomes() (all []string) {
	r.Helper()
	for series := range r.scrape() {
		if rest, ok := strings.CutPrefix(series, `rpc_relay_tx_outcomes_total{outcome="`); ok {
			outcome, _, _ := strings.Cut(rest, `"`)
			all = append(all, outcome)
		}
	}
	return all
}

func asText(t *testing.T, v any) string {
	t.Helper()
	text := must.Get(json.Marshal(v))(t)
	return string(text)
}

// What is wrong with a transaction by itself or for its sender's state is shown in packages eth and precheck, what the network
// makes of it in outcomes_test.go. Rows that begin with BUG are those where established relays answer wrongly.

// row is a transaction and the answer to it.
type row struct {
	tx      func(a *account, next uint64) string // the raw transaction in hex
	code    int                                  // 0: the hash
	message string                               // whole, unless it ends with …
	status  string                               // hederaStatus in the data; "": none
}

func (want row) check(t *testing.T, got answer, tx string) {
	t.Helper()
	if want.code == 0 {
		if got.String() != `"`+decode(t, tx).Hash().Hex()+`"` {
			t.Errorf("%s, want the hash", got)
		}
		return
	}
	if got.Error == nil || got.Error.Code != want.code || !matches(got.Error.Message, want.message) {
		t.Errorf("%s, want %d %s", got, want.code, want.message)
		return
	}
	var data struct{ HederaStatus string }
	_ = json.Unmarshal(got.Error.Data, &data)
	if data.HederaStatus != want.status {
		t.Errorf("data %s, want the status %q", got.Error.Data, want.status)
	}
}

func decode(t *testing.T, raw string) *types.Transaction {
	t.Helper()
	tx := new(types.Transaction)
	must.Do(t, tx.UnmarshalBinary(common.FromHex(raw)))
	return tx
}

func matches(text, want string) bool {
	prefix, open := strings.CutSuffix(want, "…")
	return text == want || open && strings.HasPrefix(text, prefix)
}

// signed makes a row's transaction of a transfer.
func signed(change func(*types.DynamicFeeTx)) func(*account, uint64) string {
	return func(a *account, next uint64) string {
		data := a.pay(next)
		change(data)
		return a.raw(data)
	}
}

func (a *account) raw(data types.TxData) string {
	a.t.Helper()
	raw := must.Get(a.sign(data).MarshalBinary())(a.t)
	return hexutil.Encode(raw)
}

func good(a *account, next uint64) string { return a.raw(a.pay(next)) }

func reverting(a *account, next uint64) string {
	data := a.pay(next)
	data.To, data.Value, data.Data = nil, nil, common.FromHex("60006000fd")
	return a.raw(data)
}

// Call data that goes into a file and does not get there is an error, and nothing of the
// transaction itself is sent. (What becomes of the file is tested in e2e/nodes.)
func TestFileErrors(t *testing.T) {
	t.Parallel()
	const notStored = "its call data could not be put into a file; the transaction was not submitted"
	large := signed(func(d *types.DynamicFeeTx) { d.To, d.Value, d.Gas, d.Data = nil, nil, 5_000_000, make([]byte, 6_000) })
	poor := func(detail string) row {
		return row{large, -32000, "Consensus node error: INSUFFICIENT_PAYER_BALANCE (10): " + detail, "INSUFFICIENT_PAYER_BALANCE"}
	}
	for name, test := range map[string]struct {
		rules    string
		settings []string
		late     bool // no node takes it until time is up
		row
	}{
		"create refused by the node":       {rules: `[{"at":"submit","body":"fileCreate","status":"INSUFFICIENT_PAYER_BALANCE"}]`, row: poor(notStored)},
		"create refused at consensus":      {rules: `[{"at":"submit","body":"fileCreate","outcome":"INSUFFICIENT_PAYER_BALANCE"}]`, row: poor(notStored)},
		"BUG append refused by the node":   {rules: `[{"at":"submit","body":"fileAppend","status":"INSUFFICIENT_PAYER_BALANCE"}]`, row: poor(notStored)},
		"BUG append refused at consensus":  {rules: `[{"at":"submit","body":"fileAppend","outcome":"INSUFFICIENT_PAYER_BALANCE"}]`, row: poor(notStored)},
		"create throttled for ever":        {rules: `[{"at":"submit","body":"fileCreate","outcome":"THROTTLED_AT_CONSENSUS"}]`, row: row{large, -32000, "Consensus node error: THROTTLED_AT_CONSENSUS (…", "THROTTLED_AT_CONSENSUS"}},
		"no node takes the file":           {late: true, rules: `[{"at":"submit","body":"fileCreate","grpc":"UNIMPLEMENTED"}]`, row: row{large, -32000, noNode, ""}},
		"BUG too many pieces":              {settings: []string{"FILE_APPEND_MAX_CHUNKS=1"}, row: row{large, -32201, "Oversized data: call data size 6000, call data size limit 5120", ""}},
		"no budget for the file":           {settings: []string{"HBAR_RATE_LIMIT_TINYBAR=1000"}, row: row{large, -32606, "HBAR Rate limit exceeded", ""}},
		"transaction refused":              {rules: `[{"at":"submit","body":"ethereumTransaction","status":"INSUFFICIENT_PAYER_BALANCE"}]`, row: poor("the consensus node did not accept the transaction")},
		"transaction refused at consensus": {rules: `[{"at":"submit","body":"ethereumTransaction","outcome":"INVALID_FILE_ID"}]`, row: row{large, -32003, "Transaction rejected: INVALID_FILE_ID", "INVALID_FILE_ID"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			settings := append([]string{"JUMBO_TX_ENABLED=false", "SDK_MAX_ATTEMPTS=2", "TX_STATUS_TRACING=true", "ENABLE_NONCE_ORDERING=true"}, test.settings...)
			if test.late {
				settings = append(settings, "SDK_REQUEST_TIMEOUT=8000")
			}
			r, a := w.relay(t, settings...), w.account(t)
			must.Do(t, w.rules.Set([]byte(cmp.Or(test.rules, "[]"))))
			tx := test.tx(a, 0)
			test.check(t, r.call("eth_sendRawTransaction", tx), tx)
			if got := w.nonce(t, a); got != 0 {
				t.Errorf("the network's nonce is %d", got)
			}
			must.Do(t, w.rules.Set([]byte("[]")))
			if len(test.settings) == 0 { // and all is well again
				row{}.check(t, r.call("eth_sendRawTransaction", tx), tx)
			}
		})
	}
}

// runManager starts a transaction manager that sends from an account through a relay.
func runManager(t *testing.T, from *account, relay string) string {
	t.Helper()
	cfg := must.Get(config.LoadManager([]string{
		"TXM_CHAINS=298=" + relay, "DATABASE_URL=memory:", "RELAYER_PRIVATE_KEYS=" + hex.EncodeToString(crypto.FromECDSA(from.key)), "TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS=127.0.0.1:0", "INSTANCE_ID=test",
	}))(t)
	open := func(_ context.Context, spec service.Spec) (txmgr.Chain, error) {
		depth := uint64(0)
		return ethchain.New(ethchain.Config{ID: 298, URLs: spec.URL, Depth: &depth, InFlight: 1})
	}
	s := must.Get(service.New(t.Context(), cfg.TXM, service.Deps{Drivers: map[string]service.Driver{"": open}, Version: "test", Log: slog.New(slog.DiscardHandler)}))(t)
	must.Do(t, s.Listen(t.Context()))
	must.Run(t, s.Run)
	return s.URL()
}

// relay_* on the relay's port go to the manager; without TXM_URL there are none.
func TestRelayMethods(t *testing.T) {
	w := newWorld(t)
	through := w.relay(t)
	relay := w.relay(t, "RPC_HTTP_API=eth,net,web3,relay", "TXM_URL="+runManager(t, w.account(t), through.url))
	for i, want := range [][]string{{"relay_cancel", "relay_getStatus", "relay_sendTransaction"}, nil} {
		var document struct{ Methods []struct{ Name string } }
		if got := []func(string, ...any) answer{relay.call, through.call}[i]("rpc.discover"); json.Unmarshal(got.Result, &document) != nil || len(document.Methods) == 0 {
			t.Fatalf("%+v", got)
		}
		var described []string
		for _, m := range document.Methods {
			if strings.HasPrefix(m.Name, "relay_") {
				described = append(described, m.Name)
			}
		}
		if !slices.Equal(described, want) {
			t.Errorf("rpc.discover has %q, want %q", described, want)
		}
	}
	intent := map[string]any{"chainId": 298, "to": "0x05FbA803Be258049A27B820088bab1cAD2058871", "value": "10000000000", "idempotencyKey": "k"}
	var sent, again, status struct{ ID, Status string }
	if got := relay.call("relay_sendTransaction", intent); got.Error != nil || json.Unmarshal(got.Result, &sent) != nil || sent.ID == "" {
		t.Fatalf("sent: %+v", got)
	}
	intent["chainId"] = "298" // the id may be text, too
	if got := relay.call("relay_sendTransaction", intent); json.Unmarshal(got.Result, &again) != nil || again.ID != sent.ID {
		t.Errorf("the same key again: %+v", got)
	}
	intent["value"] = "20000000000"
	if got := relay.call("relay_sendTransaction", intent); got.Error == nil || !strings.Contains(got.Error.Message, "IDEMPOTENCY_KEY_REUSED") {
		t.Errorf("another intent under the key: %+v", got)
	}
	relay.until("the transaction has its fate", func() bool {
		got := relay.call("relay_getStatus", map[string]any{"id": sent.ID})
		return json.Unmarshal(got.Result, &status) == nil && status.Status == "confirmed"
	})
	if got := relay.call("relay_cancel", map[string]any{"id": sent.ID}); got.Error == nil || !strings.Contains(got.Error.Message, "TOO_LATE") {
		t.Errorf("cancelled after its fate: %+v", got)
	}
	if got := relay.call("relay_getStatus", "x"); got.Error == nil {
		t.Errorf("not an object: %+v", got)
	}
	if got := through.call("relay_getStatus", map[string]any{"id": sent.ID}); got.Error == nil || got.Error.Code != -32601 {
		t.Errorf("without a manager: %+v", got)
	}
}

// slowChain has some time to consensus, so that a burst has many transactions at its node without a verdict.
func slowChain(c *devnet.Config) { c.ConsensusLatency = 150 * time.Millisecond }

// volley is what one sender sends, all at once.
type volley []shot

type shot struct {
	nonce uint64
	value *big.Int // nil: a tinybar
	share int64    // of what its sender has; 0: value
	relay int
	after time.Duration // in the attack
}

func shots(n int, shot func(i int) shot) (v volley) {
	for i := range n {
		v = append(v, shot(i))
	}
	return v
}

// fire sends a volley and counts the answers by their codes.
func (v volley) fire(t *testing.T, sender *account, relays []*relay) map[int]int {
	t.Helper()
	codes := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, s := range v {
		all.Go(func() {
			<-time.After(s.after)
			code := relays[s.relay%len(relays)].code(sender, s.nonce, ordinary, func(data *types.DynamicFeeTx) {
				switch {
				case s.share > 0:
					data.Value = (sender.balance / hedera.Tinybar(s.share)).Weibar()
				case s.value != nil:
					data.Value = s.value
				}
			})
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
		})
	}
	all.Wait()
	return codes
}

// Whatever one sender sends through two relays, the network refuses no more of it for its nonce, at the
// operator's cost, than WRONG_NONCE_BUDGET says; and an honest burst of 500 is executed whole. A lane recovers for
// 5 s only, so that the attacks end soon.
func TestWrongNonceAttacks(t *testing.T) {
	t.Parallel()
	const budget, size = 10, 60
	attacks := map[string]volley{
		"far ahead":   shots(size, func(i int) shot { return shot{nonce: uint64(1000 + 3*i), relay: i} }),
		"just ahead":  shots(size, func(i int) shot { return shot{nonce: uint64(1 + i), relay: i} }),
		"alternating": shots(size, func(i int) shot { return shot{nonce: uint64(i/2 + i%2*500), relay: i / 2} }),
		"gap filled late": shots(size, func(i int) shot {
			if i == 0 {
				return shot{after: 400 * time.Millisecond}
			}
			return shot{nonce: uint64(i), relay: i}
		}),
		"gaps filled late elsewhere": shots(size, func(i int) shot {
			return shot{nonce: uint64(i), relay: i, after: time.Duration(1-i%2) * 500 * time.Millisecond}
		}),
		"replaced":          shots(size, func(i int) shot { return shot{value: big.NewInt(int64(i+1) * 1e10), relay: i} }),
		"replaced in a row": shots(size, func(i int) shot { return shot{nonce: uint64(i / 4), value: big.NewInt(int64(i+1) * 1e10), relay: i} }),
		"backwards":         shots(size, func(i int) shot { return shot{nonce: uint64(size - 1 - i), relay: i} }),
		"more than it has": shots(size, func(i int) shot {
			return shot{nonce: uint64(i), share: 20}
		}),
		"more than it has, through two": shots(size, func(i int) shot {
			return shot{nonce: uint64(i), share: 20, relay: i}
		}),
	}
	shuffled := shots(size, func(i int) shot { return shot{nonce: uint64(i), relay: i} })
	rand.Shuffle(size, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	attacks["shuffled"] = shuffled
	for _, ordered := range []bool{true, false} {
		t.Run(fmt.Sprintf("ordered %v", ordered), func(t *testing.T) {
			t.Parallel()
			w, server := newWorld(t, slowChain), redistest.Start(t)
			settings := []string{
				fmt.Sprintf("ENABLE_NONCE_ORDERING=%v", ordered), "NONCE_RECOVERY_MS=5000",
				"REDIS_ENABLED=true", "REDIS_URL=" + server.URL(),
			}
			relays := []*relay{w.costly(t, settings...), w.costly(t, settings...)}
			for name, attack := range attacks {
				t.Run(name, func(t *testing.T) {
					sender, before, began := w.account(t), operatorBalance(t, w.net), time.Now()
					codes := attack.fire(t, sender, relays)
					paid := (before - operatorBalance(t, w.net)) / refusalFee
					t.Logf("answers %v, paid for %d, next nonce %d", codes, paid, w.nonce(t, sender))
					if most := budgetSince(began, budget); paid > most {
						t.Errorf("the operator paid for %d rejections, want at most %d; answers %v", paid, most, codes)
					}
				})
			}
		})
	}
	t.Run("honest burst", func(t *testing.T) {
		t.Parallel()
		const burst = 500
		w, server := newWorld(t, slowChain), redistest.Start(t)
		settings := []string{"ENABLE_NONCE_ORDERING=true", "REDIS_ENABLED=true", "REDIS_URL=" + server.URL(), aBurst}
		relays := []*relay{w.costly(t, settings...), w.costly(t, settings...)}
		before := operatorBalance(t, w.net)
		codes := shots(burst, func(i int) shot { return shot{nonce: uint64(i), relay: i} }).fire(t, w.account(t), relays)
		if paid := (before - operatorBalance(t, w.net)) / refusalFee; codes[fine] != burst || paid != 0 {
			t.Errorf("answers to an honest burst of %d: %v; the operator paid for %d", burst, codes, paid)
		}
		for _, r := range relays {
			if n := r.scrape()["lockstep_wrong_nonce_budget_refusals_total"]; n != 0 {
				t.Errorf("the budget refused %v of it", n)
			}
		}
	})
}
