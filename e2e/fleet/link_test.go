package fleet

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

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
