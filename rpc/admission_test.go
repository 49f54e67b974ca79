package rpc

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/must"
)

// connect opens a connection that has had an answer, and so is let in, or returns what it
// was told instead.
func connect(t *testing.T, url string) (conn net.Conn, refusal string) {
	t.Helper()
	opened := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	conn = opened
	t.Cleanup(func() { _ = opened.Close() })
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60\r\n\r\n"+chainIDCall+strings.Repeat(" ", 60-len(chainIDCall))); err != nil {
		return nil, err.Error()
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err.Error()
	}
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body))(t)
	if response.StatusCode == http.StatusOK {
		return conn, ""
	}
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("refused with status %d and %v", response.StatusCode, response.Header)
	}
	return nil, string(body)
}

// TestConnectionsAreBounded: in all, and of one address unless it is a trusted proxy's.
func TestConnectionsAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		proxies           envx.Strings
		total, perAddress int
		want              int
		limit             string // as the metric names it
	}{
		"in all":             {envx.Strings{"127.0.0.0/8"}, 3, 2, 3, "total"},
		"of one address":     {envx.Strings{"192.0.2.0/24"}, 10, 2, 2, "address"},
		"no more than free":  {envx.Strings{"192.0.2.0/24"}, 10, 100, 5, "address"},
		"a place for anyone": {envx.Strings{"192.0.2.0/24"}, 1, 100, 1, "total"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig()
			c.TrustedProxies, c.HTTP.ConnectionLimit, c.HTTP.ConnectionLimitPerIP = tt.proxies, tt.total, tt.perAddress
			m := NewMetrics()
			d := testDispatcher(t, c, Options{Metrics: m})
			url := serveHTTP(t, d, HTTPOptions{})
			var open []net.Conn
			for range tt.want {
				conn, refusal := connect(t, url)
				if refusal != "" {
					t.Fatal(refusal)
				}
				open = append(open, conn)
			}
			if _, refusal := connect(t, url); !strings.Contains(refusal, `{"error":{"code":-32005,"message":"Too many connections: the limit is `) {
				t.Errorf("one too many was told %q", refusal)
			}
			// One that net/http has counts as well.
			must.Get(io.WriteString(open[0], "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
			if _, err := http.ReadResponse(bufio.NewReader(open[0]), nil); err != nil { //nolint:bodyclose // the connection is closed as a whole
				t.Fatal(err)
			}
			if _, refusal := connect(t, url); refusal == "" {
				t.Error("a connection that was handed over does not count")
			}
			if got, all := value(m.refusedConnections.WithLabelValues(tt.limit)), value(m.refusedConnections); got != 2 || all != 2 {
				t.Errorf("%v of %v refusals are counted for the limit, want 2", got, all)
			}
			if got := value(m.connections); got != float64(tt.want) {
				t.Errorf("%v connections are open, want %d", got, tt.want)
			}
			_ = open[0].Close()
			eventually(t, func() bool {
				d.admission.mu.Lock()
				defer d.admission.mu.Unlock()
				return d.admission.open == tt.want-1
			})
			if _, refusal := connect(t, url); refusal != "" {
				t.Errorf("there is room again, and one was told %q", refusal)
			}
		})
	}
}

// remote is a connection from an address.
type remote struct {
	net.Conn
	addr net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.addr }

func (r remote) Close() error { return nil }

func (r remote) SetDeadline(time.Time) error { return net.ErrClosed } // it is not told why it is refused

// TestFewClientsLeaveRoom: clients that take whatever they get leave room for others, however many addresses they
// have, up to hundreds. The addresses of one /64 are one client.
func TestFewClientsLeaveRoom(t *testing.T) {
	const room = 10 // what an honest client needs
	for _, clients := range []int{1, 16, 17, 100, 500} {
		c := testConfig()
		d := newAdmission(&c, NewMetrics())
		enter := func(client, i int) bool {
			address := fmt.Sprintf("[2001:db8:%x:%x::%x]:4000", client>>16, client&0xffff, i+1)
			_, ok := d.enter(remote{addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))})
			return ok
		}
		for i, more := 0, true; more; i++ {
			more = false
			for client := range clients {
				more = enter(client, i) || more
			}
		}
		if want := min(clients*c.HTTP.ConnectionLimitPerIP, c.HTTP.ConnectionLimit); d.open > want {
			t.Errorf("%d clients have %d connections", clients, d.open)
		}
		for i := range room {
			if !enter(clients, i) {
				t.Errorf("%d clients have %d connections, and another one gets %d", clients, d.open, i)
				break
			}
		}
	}
}

// TestManyRefusalsAreShort: who is refused costs a goroutine for a moment, of which there are
// few.
func TestManyRefusalsAreShort(t *testing.T) {
	c := testConfig()
	c.HTTP.ConnectionLimit = 1
	d := testDispatcher(t, c, Options{})
	url := serveHTTP(t, d, HTTPOptions{})
	if _, refusal := connect(t, url); refusal != "" {
		t.Fatal(refusal)
	}
	for range 200 {
		conn := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
		defer conn.Close()
		d.admission.mu.Lock()
		if d.admission.refusing > 64 || d.admission.open != 1 {
			t.Errorf("%d are being refused, %d are open", d.admission.refusing, d.admission.open)
		}
		d.admission.mu.Unlock()
	}
}

func TestMethodLimits(t *testing.T) {
	var c RateLimitConfig
	c.Tier1, c.Tier2, c.Default = 11, 22, 44
	must.Do(t, c.Methods.UnmarshalText([]byte(" eth_getLogs=50, debug_*=5,debug_traceTransaction = 0,debug_trace*=7")))
	for method, want := range map[string]int{
		"eth_getLogs": 50, "debug_getRawBlock": 5, "debug_traceTransaction": 0, "debug_traceCall": 7, // of the longest pattern
		"eth_getLogsX": 22, "eth_call": 22, "debu_": 22,
	} {
		if got := c.MethodLimit(method, 2); got != want {
			t.Errorf("%s: %d, want %d", method, got, want)
		}
	}
	const text = "debug_*=5,debug_trace*=7,debug_traceTransaction=0,eth_getLogs=50"
	if got := c.Methods.String(); got != text {
		t.Errorf("written as %s", got)
	}
	var again, list MethodLimits
	if err := again.UnmarshalText([]byte(text)); err != nil || again.String() != text {
		t.Errorf("read again: %s, %v", again, err)
	}
	if err := list.UnmarshalText([]byte(`["eth_getLogs=50"]`)); err != nil || list.String() != "eth_getLogs=50" {
		t.Errorf("as JSON: %s, %v", list, err)
	}
	if err := list.UnmarshalText(nil); err != nil || list != nil {
		t.Errorf("nothing is read as %s, %v", list, err)
	}
	for _, wrong := range []string{"eth_getLogs", "eth_getLogs=", "=5", "eth_getLogs=many", "eth_getLogs=-1", "eth_*Logs=5", "a.b=1", "eth_call=1,eth_call=2", "[5"} {
		if err := new(MethodLimits).UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

func TestIdleLimits(t *testing.T) {
	d := testDispatcher(t, testConfig(), Options{})
	given := MethodLimits{"eth_chainId": 1, "eth_*": 1, "eth_chanId": 1, "dbug_*": 1}
	if idle := d.IdleLimits(given); !slices.Equal(idle, []string{"dbug_*", "eth_chanId"}) || len(given) != 4 {
		t.Errorf("idle %q of %v", idle, given)
	}
}
