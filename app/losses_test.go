package app_test

import (
	"net/http"
	"strings"
	"testing"

	"lockstep/devnet/mirrorrest"
	"lockstep/internal/outage"
	"lockstep/internal/redistest"
)

// The loss of a mirror node, of a consensus node and of Redis, and the end of each, have one line
// each in the log, with the cause and with what it means for clients, however much fails meanwhile.
func TestEveryLossOfAnUpstreamIsLoggedOnceEachWay(t *testing.T) {
	w, server := newWorld(t), redistest.Start(t)
	r := w.relay(t, "ENABLE_NONCE_ORDERING=true", "REDIS_ENABLED=true", "REDIS_URL="+server.URL(), "MIRROR_NODE_HEALTH_INTERVAL=50",
		"HBAR_RATE_LIMIT_TINYBAR=1000000000000", "LOCK_REDIS_TIMEOUT_MS=5000", "LOCK_HEARTBEAT_MISSED_COUNT=20")
	sender := w.account(t)
	nonce := uint64(0)
	send := func() answer {
		got := r.send(sender.sign(sender.pay(nonce)))
		if got.Error == nil {
			nonce++
		}
		return got
	}
	r.until("a transaction is executed: the node is connected", func() bool { return send().Error == nil })
	unavailable := func(*http.Request) mirrorrest.Fault { return mirrorrest.Fault{Status: http.StatusServiceUnavailable} }
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		upstream, name string
		cause          string
		lose, find     func()
		use            func()
	}{
		{
			"mirror", strings.TrimPrefix(w.net.Mirror(), "http://"), "503",
			func() { w.mirror.Store(&unavailable) }, func() { w.mirror.Store(nil) },
			func() { r.call("eth_getBalance", sender.address, "latest") },
		},
		{
			"node", "0.0.3", "Unavailable",
			func() { must(w.rules.Set([]byte(`[{"at":"submit","times":1,"dropBefore":true}]`))) }, func() { must(w.rules.Set([]byte(`[]`))) },
			func() { send() },
		},
		{"redis", "locks", "connect", server.Kill, server.Restart, func() {}},
		{"redis", "spending", "connect", server.Kill, server.Restart, func() { send() }},
	} {
		lines := func(message string) (found []string) {
			for _, line := range r.log.with(message + `" upstream=` + test.upstream) {
				if strings.Contains(line, " name="+test.name+" ") {
					found = append(found, line)
				}
			}
			return found
		}
		// One server is the upstream of several parts, each of which finds out by itself that it is back.
		r.until(test.name+" is not lost any more", func() bool { return len(lines(outage.Lost)) == len(lines(outage.Back)) })
		before := len(lines(outage.Lost))
		test.lose()
		r.until(test.name+" is lost", func() bool { test.use(); return len(lines(outage.Lost)) > before })
		for range 10 {
			test.use()
		}
		test.find()
		r.until(test.name+" is back", func() bool { test.use(); return len(lines(outage.Back)) > before })
		lost, back := lines(outage.Lost), lines(outage.Back)
		if len(lost) != before+1 || len(back) != before+1 {
			t.Errorf("%s %s: %d lines about losses, %d about their ends, of %d\n%s%s", test.upstream, test.name, len(lost), len(back), before+1, lost, back)
		}
		if last := lost[len(lost)-1]; !strings.Contains(last, test.cause) || !strings.Contains(last, ` consequence="`) {
			t.Errorf("the line names no cause %q or no consequence: %s", test.cause, last)
		}
	}
}
