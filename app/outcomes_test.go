package app_test

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet"
	"lockstep/internal/must"
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
