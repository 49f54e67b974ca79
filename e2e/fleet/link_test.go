package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"lockstep/internal/redistest"
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
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	l := &link{t: t}
	for try := 1; ; try++ {
		// A port of which the test disposes until its end, so that it is free when the line is repaired.
		l.proxy = toxiproxy.NewProxy(server, "link", fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t)), addr)
		err := l.proxy.Start()
		if err == nil {
			break
		}
		if try == 5 {
			t.Fatal(err)
		}
	}
	t.Cleanup(l.cut)
	return l
}

func (l *link) addr() string { return l.proxy.Listen }

// cut breaks all connections and refuses new ones.
func (l *link) cut() { l.proxy.Stop() }

// repair ends cut.
func (l *link) repair() {
	l.t.Helper()
	if err := l.proxy.Start(); err != nil {
		l.t.Fatal(err)
	}
}

// spoil adds trouble of one kind in one direction, upstream (to the server) or downstream.
func (l *link) spoil(kind, direction, attributes string) {
	l.t.Helper()
	text := fmt.Sprintf(`{"name":"trouble","type":%q,"stream":%q,"attributes":{%s}}`, kind, direction, attributes)
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		l.t.Fatal(err)
	}
	l.bad = true
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
	if err := l.proxy.Toxics.RemoveToxic(l.t.Context(), "trouble"); err != nil {
		l.t.Fatal(err)
	}
	l.bad = false
}

// links are lines that are spoiled together.
type links []*link

func (ls links) each(f func(*link)) {
	for _, l := range ls {
		f(l)
	}
}

func (ls links) hold() { ls.each((*link).hold) }
func (ls links) mute() { ls.each((*link).mute) }
func (ls links) heal() { ls.each((*link).heal) }
