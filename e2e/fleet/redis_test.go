package fleet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
)

// TestRedisTrouble sends from several senders while Redis is in trouble. Nobody waits
// for Redis and nothing fails because of it. Senders whose transactions arrive at
// one relay keep their order throughout, without a window; one who goes from relay to
// relay, and waits for each answer before the next, is never refused for what a relay
// has missed. When the trouble is over, the order between relays holds again by itself.
func TestRedisTrouble(t *testing.T) {
	t.Parallel()
	for _, f := range troubles() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, alert()...)
			n.startRelays(2)
			n.sufferAndRecover(f)
			n.checkTidy()
		})
	}
}

// sufferAndRecover is the scenario of TestRedisTrouble.
func (n *network) sufferAndRecover(f fault) {
	n.t.Helper()
	s := &storm{net: n, servers: []*redistest.Server{n.redis}, fleet: n.relays, apart: map[string]bool{}}
	faithful, wandering := newBurst(n), newBurst(n)
	senders := n.newSenders(4)
	sockets := make([]*socket, len(senders))
	for i := range senders {
		sockets[i] = faithful.dial(n.relays[i%2])
	}
	arrive := wandering.travel(n.newSender(), n.relays)
	const count, from, to = 80, 15, 60
	before := n.relays[0].metric(failures)
	pace(20*time.Millisecond, count, func(i int) {
		switch {
		case i == from && f.begin != nil:
			f.begin(s)
		case i == to:
			s.notice(f, before)
			if f.end != nil {
				f.end(s)
			}
		case i >= from && i < to && i%3 == 0 && f.during != nil:
			f.during(s)
		}
		for j, sender := range senders {
			sockets[j].send(sender.pay(1)...)
		}
	})
	arrive()
	n.check(faithful.wait(), allowance{})
	n.check(wandering.wait(), allowance{})

	for _, r := range n.relays {
		r.sharesOrder()
	}
	after := newBurst(n)
	n.lineUp(after, n.newSender(), n.relays, 12)
	n.check(after.wait(), allowance{})
}

// failures counts the calls to Redis that failed.
const failures = "rpc_relay_lock_redis_errors_total"

// notice waits until the first relay has noticed the fault, if it must: the relay, too, may have stood still.
func (s *storm) notice(f fault, before float64) {
	s.net.t.Helper()
	if f.begin == nil || f.unnoticed {
		return
	}
	until(s.net.t, normal, "relay A notices the trouble", func() bool {
		if s.relay(0).metric(failures) > before {
			return true
		}
		if f.end == nil {
			f.begin(s)
		}
		return false
	})
}

// TestRedisAbsentAtStart: a relay that starts without Redis serves at once, in its own
// order, and shares the order when Redis appears, without a restart.
func TestRedisAbsentAtStart(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, alert()...)
	n.redis.Kill()
	a, b := n.launch("A"), n.launch("B")
	alice := n.newSender()
	early := newBurst(n)
	socket := early.dial(a)
	for range 20 {
		socket.send(alice.pay(1)...)
	}
	n.check(early.wait(), allowance{})
	n.redis.Restart()
	a.sharesOrder()
	b.sharesOrder()
	after := newBurst(n)
	n.lineUp(after, n.newSender(), n.relays, 12)
	n.check(after.wait(), allowance{})
	n.checkTidy()
}

// TestFailover kills the master that the relays found through a Sentinel (L11).
func TestFailover(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	n := newNetwork(t, append(alert(), "REDIS_URL="+sentinel.URL())...)
	n.store = sentinel.Master.Client()
	n.startRelays(2)
	n.sufferAndRecover(fault{
		begin:     func(*storm) { sentinel.Failover() },
		end:       func(*storm) { n.store = sentinel.Replica.Client() }, // which decides the order afterwards
		unnoticed: true,
	})
	n.checkTidy()
}

// TestCluster runs the relays on a cluster of three servers, one of which dies and comes back: the others go on with the senders whose keys
// they have, and the order of arrival over both relays holds again afterwards.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	n := newNetwork(t, append(alert(), "REDIS_URL="+cluster.URL())...)
	n.store = redistest.Dial(t, cluster.URL())
	n.startRelays(2)
	n.sufferAndRecover(fault{
		begin:     func(*storm) { cluster.Nodes[1].Kill() },
		end:       func(*storm) { cluster.Nodes[1].Restart() },
		unnoticed: true,
	})
}

// link is the line from one relay to one server.
type link struct {
	t     *testing.T
	proxy *toxiproxy.Proxy
	bad   bool // it has the toxic of spoil
}

// newLink opens a line to addr, without trouble at first.
func newLink(t *testing.T, addr string) *link {
	t.Helper()
	for try := 1; ; try++ {
		// A port of which the test disposes until its end, so that it is free when the line is repaired.
		l, err := newLinkAt(t, fmt.Sprintf("127.0.0.1:%d", proctest.FreePort(t)), addr)
		if err == nil {
			return l
		}
		if try == 5 {
			t.Fatal(err)
		}
	}
}

// newLinkAt opens a line to addr whose other end is at the address here.
func newLinkAt(t *testing.T, here, addr string) (*link, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	l := &link{t: t, proxy: toxiproxy.NewProxy(server, "link", here, addr)}
	if err := l.proxy.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(l.cut)
	return l, nil
}

func (l *link) addr() string { return l.proxy.Listen }

// cut breaks all connections and refuses new ones.
func (l *link) cut() { l.proxy.Stop() }

// repair ends cut.
func (l *link) repair() {
	l.t.Helper()
	must.Do(l.t, l.proxy.Start())
}

// spoil adds trouble of one kind in one direction, upstream (to the server) or downstream.
func (l *link) spoil(kind, direction, attributes string) {
	l.t.Helper()
	l.add("trouble", kind, direction, attributes)
	l.bad = true
}

func (l *link) add(name, kind, direction, attributes string) {
	l.t.Helper()
	text := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"attributes":{%s}}`, name, kind, direction, attributes)
	must.Get(l.proxy.Toxics.AddToxicJson(strings.NewReader(text)))(l.t)
}

// hold keeps what the relay sends until heal delivers it.
func (l *link) hold() { l.t.Helper(); l.spoil("latency", "upstream", `"latency":600000`) }

// swallow loses what the relay sends, and tells nobody: no error, no reset.
func (l *link) swallow() { l.t.Helper(); l.spoil("timeout", "upstream", `"timeout":0`) }

// mute loses what the server says: new connections never become usable, so that the
// relay has nowhere to send.
func (l *link) mute() { l.t.Helper(); l.spoil("timeout", "downstream", `"timeout":0`) }

// heal ends spoil, if there was any.
func (l *link) heal() {
	l.t.Helper()
	if !l.bad {
		return
	}
	must.Do(l.t, l.proxy.Toxics.RemoveToxic(l.t.Context(), "trouble"))
	l.bad = false
}

// links are lines that are spoiled together.
type links []*link

func (ls links) each(f func(*link)) {
	for _, l := range ls {
		f(l)
	}
}

func (ls links) cut()    { ls.each((*link).cut) }
func (ls links) repair() { ls.each((*link).repair) }

func (ls links) hold() { ls.each((*link).hold) }
func (ls links) mute() { ls.each((*link).mute) }
func (ls links) heal() { ls.each((*link).heal) }

// readdress has servers name themselves by another address, as a router does that has addresses of its own for them. What
// they call serversHost is To here, which is as long, so that nothing else of an answer changes.
type readdress struct{ To string }

// serversHost is where all servers listen.
const serversHost = "127.0.0.1"

func (r *readdress) Pipe(stub *toxics.ToxicStub) {
	var rest []byte // the end of what came, if the address may begin there
	for {
		select {
		case <-stub.Interrupt:
			if len(rest) > 0 {
				stub.Output <- &stream.StreamChunk{Data: rest}
			}
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			var all []byte
			if all, rest = r.replace(append(rest, c.Data...)); len(all) > 0 {
				stub.Output <- &stream.StreamChunk{Data: all, Timestamp: c.Timestamp}
			}
		}
	}
}

// replace returns what can go on, and what has to wait for more.
func (r *readdress) replace(data []byte) (all, rest []byte) {
	data = bytes.ReplaceAll(data, []byte(serversHost), []byte(r.To))
	for n := min(len(data), len(serversHost)-1); n > 0; n-- {
		if bytes.HasSuffix(data, []byte(serversHost[:n])) {
			return data[:len(data)-n], bytes.Clone(data[len(data)-n:])
		}
	}
	return data, nil
}

// wallClock is the clock of the day of some programs.
type wallClock struct{ file string } // which has the seconds that it is ahead

func newWallClock(t *testing.T) *wallClock {
	t.Helper()
	c := &wallClock{file: filepath.Join(t.TempDir(), "shift")}
	c.shift(t, 0)
	return c
}

// clockOfRedis builds the library that shifts the clock, and has all programs that start from now on load it, if they use
// the C library and see the test's environment. These are the servers of Redis.
func clockOfRedis(t *testing.T) *wallClock {
	t.Helper()
	dir := t.TempDir()
	library := filepath.Join(dir, "clock.so")
	if out, err := exec.CommandContext(t.Context(), "cc", "-O2", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "clock.c")).CombinedOutput(); err != nil {
		t.Fatalf("this test needs a C compiler: %v\n%s", err, out)
	}
	c := newWallClock(t)
	t.Setenv("LD_PRELOAD", library)
	t.Setenv("CLOCK_SHIFT", c.file)
	return c
}

// shift sets the clock so far ahead of the true time, at once.
func (c *wallClock) shift(t *testing.T, ahead time.Duration) {
	t.Helper()
	file, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second)), 0) //nolint:gosec // two's complement is meant
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// dayShift names the file of the clock to a program of dayProgram.
const dayShift = "CLOCK_OF_THE_DAY_SHIFT"

// dayProgram builds lockstep so that its clock of the day can be set. A program in Go asks the kernel itself what time it
// is, past every library, so this is done in its time.Now. As on a machine whose clock is set, the monotonic part of what
// time.Now returns goes on.
func dayProgram(t *testing.T) string {
	t.Helper()
	command := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = filepath.Join("..", "..")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	dir, source := t.TempDir(), filepath.Join(command("env", "GOROOT"), "src", "time")
	text := must.Get(os.ReadFile(filepath.Join(source, "time.go")))(t)
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), now) != 1 {
		t.Fatal("time.Now of this version of Go looks different: this test has to learn it")
	}
	shift := must.Get(os.ReadFile(filepath.Join("testdata", "shift.go.txt")))(t)
	replace := map[string]string{}
	for name, content := range map[string]string{
		"time.go":  strings.Replace(string(text), now, now+"\tsec += dayShift()\n", 1),
		"shift.go": strings.ReplaceAll(string(shift), "DAY_SHIFT", dayShift),
	} {
		replace[filepath.Join(source, name)] = filepath.Join(dir, name)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "lockstep")
	command("build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./cmd/lockstep")
	return program
}
