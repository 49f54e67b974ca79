package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"math/big"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/internal/must"
)

// hardships spoil some of everything that a relay asks of the network.
const hardships = `[
	{"at": "submit", "chance": 0.02, "status": "BUSY"},
	{"at": "submit", "chance": 0.01, "status": "PLATFORM_NOT_ACTIVE"},
	{"at": "submit", "chance": 0.02, "dropBefore": true},
	{"at": "submit", "chance": 0.02, "dropAfter": true},
	{"at": "submit", "chance": 0.02, "delay": "300ms"},
	{"at": "submit", "chance": 0.01, "goAway": true},
	{"at": "receipt", "chance": 0.02, "dropBefore": true},
	{"at": "receipt", "chance": 0.02, "delay": "300ms"},
	{"at": "receipt", "chance": 0.01, "status": "BUSY"},
	{"at": "mirror", "path": "/api/v1/", "chance": 0.01, "httpStatus": 500},
	{"at": "mirror", "path": "/api/v1/", "chance": 0.01, "httpStatus": 404},
	{"at": "mirror", "path": "/api/v1/", "chance": 0.002, "httpStatus": 429, "retryAfter": "1s"},
	{"at": "mirror", "path": "/api/v1/", "chance": 0.01, "garbage": true},
	{"at": "mirror", "path": "/api/v1/", "chance": 0.01, "cut": true},
	{"at": "mirror", "path": "/api/v1/", "chance": 0.01, "drop": true},
	{"at": "mirror", "path": "/api/v1/", "chance": 0.02, "delay": "300ms"},
	{"at": "mirror", "path": "/api/v1/", "chance": 0.001, "hang": true}
]`

// Under constant load and constant trouble on both sides, nothing is lost, nothing is sent
// twice or out of order, every answer is true, and memory does not grow.
// LOCKSTEP_SOAK_TIME sets how long, instead of a minute.
func TestSoak(t *testing.T) {
	const crowd, pace = 10, 200 * time.Millisecond
	lasts := time.Minute
	if text := os.Getenv("LOCKSTEP_SOAK_TIME"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	// A call that hangs must end soon, and a client that goes from relay to relay must not be overtaken by what one of them
	// has heard of its last transaction.
	n := newNetwork(t, "SDK_GRPC_DEADLINE=10s", "SDK_REQUEST_TIMEOUT=10s", "MIRROR_NODE_TIMEOUT=10000", "MIRROR_NODE_RETRIES=0", "NONCE_RECOVERY_MS=50000", "LOCK_MAX_HOLD_MS=30000", "NONCE_GAP_HOLD_MS=40000")
	relays := n.startRelays(2)
	b := newBurst(n)
	n.spoil(http.MethodPut, hardships)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var clients sync.WaitGroup
	for i, s := range n.newSenders(crowd) {
		clients.Go(func() { b.pursue(ctx, s, relays, i, pace) })
	}
	<-time.After(lasts / 3) // what is kept for use again has been made by then
	until(t, 5*normal, "there was some load", func() bool { return len(b.all()) > 20*crowd })
	early := [2]int{relays[0].process.Memory(), relays[1].process.Memory()}
	clients.Wait()
	spoiled := n.spoil(http.MethodGet, "")
	n.spoil(http.MethodDelete, "")

	answers, refused, reasons := b.all(), 0, map[string]int{}
	for _, got := range answers {
		if got.refusal != nil {
			refused++
			_, text, _ := strings.Cut(got.refusal.Message, "] ") // the request's id goes first
			reasons[text]++
		}
	}
	t.Logf("%d transactions in %v, %d refused, %v; %d calls spoiled", len(answers), lasts, refused, reasons, spoiled)
	if refused == len(answers) || spoiled == 0 {
		t.Error("there was no load, or no trouble")
	}
	// Each client sends one at a time: a word about nonces is always wrong.
	n.check(answers, allowance{slow: 3 * normal, refused: func(a answer) bool { return !a.says(tooLow) && !a.says(tooHigh) }})
	for i, r := range relays {
		late := r.process.Memory()
		t.Logf("relay %s: %d MiB after a third of the time, %d at the end", r.name, early[i]>>20, late>>20)
		if most := early[i]*2 + 64<<20; late > most { // a few requests more at a time cost some
			t.Errorf("relay %s grew from %d to %d bytes", r.name, early[i], late)
		}
	}
}

// pursue sends one transaction after the other, as a client does that wants each of its nonces
// used: what was refused is replaced by another transaction, and of what is open it waits to
// hear.
func (b *burst) pursue(ctx context.Context, s *sender, relays []*relay, first int, pace time.Duration) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for i := first; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := relays[i%len(relays)]
		tx := s.signNonce(s.next, s.address, big.NewInt(int64(i+1)*1e10), 1_000_000) // no two are the same
		b.sent(tx)
		got := r.post(b.net.t.Context(), tx)[0]
		b.answered(got)
		open := got.lost != nil || got.refusal != nil && got.refusal.open()
		if got.ok() || open && r.settled(b.net.t.Context(), tx) {
			s.next++
		}
	}
}

// settled waits until an open transaction is executed, or cannot be any more.
func (r *relay) settled(ctx context.Context, tx *transaction) (executed bool) {
	validity := time.After(4 * time.Minute) // of a transaction, and what the network's clocks may differ
	body, err := json.Marshal(request{"2.0", 1, "eth_getTransactionReceipt", []any{tx.hash}})
	if err != nil {
		panic(err) // strings only
	}
	for {
		replies, err := r.roundTrip(ctx, body)
		switch {
		case err != nil: // asked again
		case replies[0].Error == nil && string(replies[0].Result) != "null":
			return true
		case replies[0].Error != nil && strings.Contains(replies[0].Error.Message, "rejected"):
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-validity:
			return false
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// spoil reads, replaces or removes the rules by which the network spoils calls. It returns how
// many calls the rules have spoiled.
func (n *network) spoil(method, rules string) (spoiled int) {
	n.t.Helper()
	request := must.Get(http.NewRequestWithContext(n.t.Context(), method, n.Control, bytes.NewReader([]byte(rules))))(n.t)
	response := must.Get(http.DefaultClient.Do(request))(n.t)
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		n.t.Fatalf("%s %s: %s", method, n.Control, response.Status)
	}
	var counted []struct{ Spoiled int }
	_ = json.NewDecoder(response.Body).Decode(&counted) // not every method answers with the rules
	for _, rule := range counted {
		spoiled += rule.Spoiled
	}
	return spoiled
}
