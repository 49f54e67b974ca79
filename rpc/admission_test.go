package rpc

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"lockstep/internal/envx"
)

// connect opens a connection that has had an answer, and so is let in, or returns what it
// was told instead.
func connect(t *testing.T, url string) (conn net.Conn, refusal string) {
	t.Helper()
	opened, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
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
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode == http.StatusOK {
		return conn, ""
	}
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("refused with status %d and %v", response.StatusCode, response.Header)
	}
	return nil, string(body)
}

// work sends a request that takes until the test lets it end. If it is not plain it goes to net/http.
func work(t *testing.T, conn net.Conn, handedOver bool, q *queued) {
	t.Helper()
	request := fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(queuedCall), queuedCall)
	if handedOver {
		request = fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(queuedCall), queuedCall)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	<-q.begun
}

// TestIdleConnectionsMakeRoom: when there is no room, connections without a request are closed. One with a request
// goes on.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	for name, plain := range map[string]bool{"plain": true, "net/http": false} {
		t.Run(name, func(t *testing.T) {
			c := testConfig()
			c.HTTP.ConnectionLimit, c.HTTP.Plain = 3, plain
			m, q := NewMetrics(), newQueued(func() (any, error) { return "done", nil })
			url := serveHTTP(t, testDispatcher(t, c, Options{Metrics: m}, append(testMethods(), q.method())...), HTTPOptions{})
			var conns []net.Conn
			for i := range 5 { // two more than there is room for
				var conn net.Conn
				eventually(t, func() bool { // a server may still be about to end a request that has been answered
					conn, _ = connect(t, url)
					return conn != nil
				})
				if conns = append(conns, conn); i == 0 {
					work(t, conn, false, q)
				}
			}
			closed := 0
			for i := range conns {
				if i == 0 {
					close(q.release)
				} else if _, err := io.WriteString(conns[i], "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: "+strconv.Itoa(len(chainIDCall))+"\r\n\r\n"+chainIDCall); err != nil {
					closed++
					continue
				}
				response, err := http.ReadResponse(bufio.NewReader(conns[i]), nil)
				if err == nil {
					_ = response.Body.Close()
					continue
				}
				if closed++; i == 0 || i == 4 {
					t.Errorf("connection %d is closed", i)
				}
			}
			if got := value(m.shedConnections); closed != 2 || got != 2 {
				t.Errorf("%d connections are closed, and %v made room; want 2", closed, got)
			}
		})
	}
}

// TestConnectionsAreBounded: in all, and of one address unless it is a trusted proxy's.
func TestConnectionsAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		proxies           envx.Strings
		total, perAddress int
		want              int
		limit             string // as the metric names it
	}{
		"in all":         {envx.Strings{"127.0.0.0/8"}, 3, 2, 3, "total"},
		"of one address": {envx.Strings{"192.0.2.0/24"}, 3, 2, 2, "address"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig()
			c.TrustedProxies, c.HTTP.ConnectionLimit, c.HTTP.ConnectionLimitPerIP = tt.proxies, tt.total, tt.perAddress
			m, q := NewMetrics(), newQueued(func() (any, error) { return "done", nil })
			d := testDispatcher(t, c, Options{Metrics: m}, append(testMethods(), q.method())...)
			url := serveHTTP(t, d, HTTPOptions{})
			defer close(q.release)
			var open []net.Conn
			for i := range tt.want {
				conn, refusal := connect(t, url)
				if refusal != "" {
					t.Fatal(refusal)
				}
				open = append(open, conn)
				work(t, conn, i == 0, q)
			}
			if _, refusal := connect(t, url); !strings.Contains(refusal, `{"error":{"code":-32005,"message":"Too many connections: the limit is `) {
				t.Errorf("one too many was told %q", refusal)
			}
			if got, all := value(m.refusedConnections.WithLabelValues(tt.limit)), value(m.refusedConnections); got != 1 || all != 1 {
				t.Errorf("%v of %v refusals are counted for the limit, want 1", got, all)
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

// TestManyRefusalsAreShort: who is refused costs a goroutine for a moment, of which there are
// few.
func TestManyRefusalsAreShort(t *testing.T) {
	c := testConfig()
	c.HTTP.ConnectionLimit = 1
	q := newQueued(func() (any, error) { return "done", nil })
	defer close(q.release)
	d := testDispatcher(t, c, Options{}, append(testMethods(), q.method())...)
	url := serveHTTP(t, d, HTTPOptions{})
	busy, refusal := connect(t, url)
	if refusal != "" {
		t.Fatal(refusal)
	}
	work(t, busy, false, q)
	for range 200 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		d.admission.mu.Lock()
		if d.admission.refusing > 64 || d.admission.open != 1 {
			t.Errorf("%d are being refused, %d are open", d.admission.refusing, d.admission.open)
		}
		d.admission.mu.Unlock()
	}
}
