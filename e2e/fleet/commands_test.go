package fleet

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/must"
)

// monitor is what Redis shows of the commands that it executes.
type monitor struct {
	net   *network
	lines *bufio.Scanner
}

func (n *network) monitor() *monitor {
	n.t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(n.t.Context(), "tcp", n.redis.Addr())
	if err == nil {
		_, err = io.WriteString(conn, "MONITOR\r\n")
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	m := &monitor{n, bufio.NewScanner(conn)}
	m.since("+OK")
	return m
}

// since returns the lines since the last call, up to the first that has the given text.
func (m *monitor) since(end string) (lines []string) {
	m.net.t.Helper()
	for m.lines.Scan() {
		if strings.Contains(m.lines.Text(), end) {
			return lines
		}
		lines = append(lines, m.lines.Text())
	}
	m.net.t.Fatalf("MONITOR ended: %v", m.lines.Err())
	return nil
}

// sentFor returns what relays sent since the last call for one sender's transactions: not
// what scripts do, and not what this test looks at.
func (m *monitor) sentFor(s *sender) []string {
	m.net.t.Helper()
	mark := fmt.Sprintf("end of %s, nonce %d", s.address.Hex(), s.next)
	must.Do(m.net.t, m.net.store.Echo(m.net.t.Context(), mark).Err())
	return slices.DeleteFunc(m.since(mark), func(line string) bool {
		return !strings.Contains(line, tag(s)) || slices.ContainsFunc([]string{` lua] `, `"exists"`, `"zrangebyscore"`}, func(part string) bool {
			return strings.Contains(line, part)
		})
	})
}

// TestLoneCommands counts what a relay with the settings' defaults, pool included, sends to
// Redis for a transaction that comes by itself: a script to take the turn, one to give it
// back, and one for the pool; where the verdict takes its time, the pool tells twice. It is
// the fewest of several that count: on a busy machine a quick verdict may be late, and if all
// of them are, the pool tells twice of each.
func TestLoneCommands(t *testing.T) {
	t.Parallel()
	for latency, most := range map[string]int{"1ms": 3, "200ms": 4} {
		t.Run(latency+" to consensus", func(t *testing.T) {
			t.Parallel()
			n := newNetworkOf(t, []string{"--consensus-latency", latency})
			r := n.startRelays(1)[0]
			alice := n.newSender()
			m := n.monitor()
			var sent []string
			var before time.Duration // what the verdict before took
			quick := false
			for range 20 {
				b := newBurst(n)
				b.post(r, alice.pay(1)...)
				answers := b.wait()
				n.check(answers, allowance{})
				const lag = 100 * time.Millisecond // for which the pool waits where the last verdict was quicker
				took := answers[0].took
				quick = quick || before != 0 && before < lag/2 && took < lag/2
				before = took
				until(t, normal, "Redis has it all", func() bool { return !n.owned(alice) && n.proven(alice) == alice.next })
				if sent = m.sentFor(alice); len(sent) <= most {
					break
				}
			}
			t.Logf("sent:\n%s", strings.Join(sent, "\n"))
			if !quick {
				most = max(most, 4)
			}
			if len(sent) > most {
				t.Errorf("%d commands were sent for a transaction, want at most %d", len(sent), most)
			}
			n.checkTidy()
		})
	}
}
