package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/devnet"
)

// A whole queue hears why no node took it: that none can be reached, or that all are busy, that
// nothing was submitted, and that it may be sent again. Only the first of the queue finds that out;
// the others are told, and none of them hears that its nonce is wrong, since it is not. So the whole queue costs one
// submission, and takes as long as one may (SDK_REQUEST_TIMEOUT).
func TestQueueWithoutNodes(t *testing.T) {
	t.Parallel()
	const busy = "Transaction rejected: BUSY - the consensus nodes take no transactions at the moment; nothing was submitted, send it again"
	for name, test := range map[string]struct {
		network func(t *testing.T, nodes int) string // of nodes that cannot be reached; nil: nodes that are busy
		code    int
		message string
	}{
		"refused": {unreachable(false), -32000, noNode},
		"silent":  {unreachable(true), -32000, noNode},
		"busy":    {nil, -32003, busy},
	} {
		for _, nodes := range []int{1, 30} {
			for _, queued := range []int{1, 10, 100} {
				t.Run(fmt.Sprintf("%s, %d nodes, %d queued", name, nodes, queued), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, func(c *devnet.Config) { c.Nodes = nodes })
					limit := 4 * time.Second // so long that a machine with much to do adds less
					if test.network == nil {
						limit = 8 * time.Second // time enough to hear that they are busy
					}
					settings := []string{"ENABLE_NONCE_ORDERING=true", fmt.Sprintf("SDK_REQUEST_TIMEOUT=%d", limit.Milliseconds())}
					if test.network != nil {
						settings = append(settings, "HEDERA_NETWORK="+test.network(t, nodes))
					} else if err := w.rules.Set([]byte(`[{"at":"submit","status":"BUSY"}]`)); err != nil {
						t.Fatal(err)
					}
					r, a := w.relay(t, settings...), w.account(t)
					for i, got := range r.sendTogether(a, queued) {
						if got.Error == nil || got.Error.Code != test.code || !strings.HasSuffix(got.Error.Message, test.message) {
							t.Errorf("nonce %d: %s", i, got)
						}
					}
					if got := r.metric("rpc_relay_eth_executions"); got != `{method="eth_sendRawTransaction"} 1` {
						t.Errorf("submissions: %s, want 1", got)
					}
					if test.network != nil {
						return
					}
					if err := w.rules.Set([]byte(`[]`)); err != nil {
						t.Fatal(err)
					}
					for i, got := range r.sendTogether(a, queued) {
						if got.Error != nil {
							t.Errorf("nonce %d, sent again: %s", i, got)
						}
					}
				})
			}
		}
	}
}

// unreachable returns networks where nobody listens or, if silent, where nobody ever says anything.
func unreachable(silent bool) func(t *testing.T, nodes int) string {
	return func(t *testing.T, nodes int) string {
		t.Helper()
		accounts := map[string]string{}
		for i := range nodes {
			listener, err := net.Listen("tcp", "127.77.0.1:0") // an address where no other test takes a port that is free again
			if err != nil {
				t.Fatal(err)
			}
			accounts[listener.Addr().String()] = fmt.Sprintf("0.0.%d", 3+i)
			if silent {
				t.Cleanup(func() { _ = listener.Close() })
			} else {
				_ = listener.Close()
			}
		}
		return asText(t, accounts)
	}
}

// sendTogether sends transactions with the nonces from 0 in one batch.
func (r *relay) sendTogether(a *account, count int) []answer {
	r.Helper()
	calls := make([]map[string]any, count)
	for i := range calls {
		calls[i] = map[string]any{"jsonrpc": "2.0", "id": i, "method": "eth_sendRawTransaction", "params": []string{good(a, uint64(i))}}
	}
	body, err := json.Marshal(calls)
	if err != nil {
		r.Fatal(err)
	}
	response, err := http.Post(r.url, "application/json", bytes.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	var answers []answer
	if err := json.NewDecoder(response.Body).Decode(&answers); err != nil || len(answers) != count {
		r.Fatalf("%d answers: %v", len(answers), err)
	}
	return answers
}

// metric returns the rest of the line of a metric that has one series.
func (r *relay) metric(name string) string {
	r.Helper()
	response, err := http.Get(r.url + "/metrics")
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil {
		r.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	r.Fatalf("no metric %s", name)
	return ""
}
