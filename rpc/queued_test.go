package rpc

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

// TestHTTPClientIP: the address is that of the socket, or what a proxy says if it is
// trusted.
func TestHTTPClientIP(t *testing.T) {
	for trust, want := range map[bool]map[string]int{true: {"9.9.9.9 eth_chainId": 1, "127.0.0.1 eth_chainId": 1}, false: {"127.0.0.1 eth_chainId": 2}} {
		c := testConfig()
		c.TrustProxyHeaders = trust
		calls := newTally(2)
		url := serveHTTP(t, testDispatcher(t, c, Options{Allow: calls.Allow}), HTTPOptions{})
		postWith(t, url, strings.NewReader(chainIDCall), http.Header{"X-Forwarded-For": {"1.1.1.1, 9.9.9.9, 127.0.0.2"}})
		post(t, url, chainIDCall)
		if diff := cmp.Diff(want, calls.used); diff != "" {
			t.Errorf("trust %t: (-want +got)\n%s", trust, diff)
		}
	}
}

// TestHTTPClientGoneWhileQueued: the context of a call in line ends with its client, whichever way that goes, and the connection
// counts no more.
func TestHTTPClientGoneWhileQueued(t *testing.T) {
	for name, end := range map[string]func(*net.TCPConn) error{
		"closes":          (*net.TCPConn).Close,
		"resets":          func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
		"closes its half": (*net.TCPConn).CloseWrite, // it cannot be told from one that is gone
	} {
		t.Run(name, func(t *testing.T) {
			q, met := newQueued(func() (any, error) { return true, nil }), NewMetrics()
			url := serveHTTP(t, testDispatcher(t, testConfig(), Options{Metrics: met}, q.method()), HTTPOptions{})
			conn := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
			defer conn.Close()
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(queuedCall), queuedCall)
			ctx := <-q.begun
			if ctx.Err() != nil {
				t.Error("the context has ended while the client was there")
			}
			must.Do(t, end(conn.(*net.TCPConn)))
			<-ctx.Done()
			close(q.release)
			eventually(t, func() bool { return value(met.connections) == 0 && value(met.inFlight) == 0 })
		})
	}
}
