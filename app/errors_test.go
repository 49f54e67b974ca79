package app_test

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/must"
)

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
