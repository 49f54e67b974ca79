package rpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/must"
)

// addresses is a limiter that remembers who called.
type addresses struct {
	mu   sync.Mutex
	seen []string // guarded by mu
}

func (a *addresses) Allow(_ context.Context, ip, _ string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, ip)
	return true
}

// TestHTTPClientIP: the address is that of the socket, or what a proxy says if it is
// trusted.
func TestHTTPClientIP(t *testing.T) {
	for trust, want := range map[bool]string{true: "9.9.9.9", false: "127.0.0.1"} {
		c := testConfig()
		c.TrustProxyHeaders = trust
		var limiter addresses
		url := serveHTTP(t, testDispatcher(t, c, Options{Limiter: &limiter}), HTTPOptions{})
		postWith(t, url, strings.NewReader(chainIDCall), http.Header{"X-Forwarded-For": {"1.1.1.1, 9.9.9.9, 127.0.0.2"}})
		post(t, url, chainIDCall)
		if diff := cmp.Diff([]string{want, "127.0.0.1"}, limiter.seen); diff != "" {
			t.Errorf("trust %t: (-want +got)\n%s", trust, diff)
		}
	}
}

// TestHTTPQueued: calls that wait in line keep their ids while the memory that they came
// in is used by others, and time out as all calls over HTTP do.
func TestHTTPQueued(t *testing.T) {
	const n = 50
	q := newQueued(func() (any, error) { return true, nil })
	met := NewMetrics()
	url := serveHTTP(t, testDispatcher(t, testConfig(), Options{Metrics: met}, append(testMethods(), q.method())...), HTTPOptions{})
	var clients sync.WaitGroup
	for i := range n {
		id := fmt.Sprintf(`"%s%d"`, strings.Repeat("x", i), i)
		clients.Go(func() {
			_, answer := post(t, url, `{"jsonrpc":"2.0","id":`+id+`,"method":"eth_queued"}`)
			if want := `{"result":true,"jsonrpc":"2.0","id":` + id + `}`; answer != want {
				t.Errorf("got %s, want %s", answer, want)
			}
		})
		<-q.begun
		post(t, url, call1("eth_chainId")+strings.Repeat(" ", 1000))
	}
	eventually(t, func() bool { return value(met.inFlight) == n })
	close(q.release)
	clients.Wait()
}

// TestHTTPQueuedTimesOut: over HTTP somebody waits for the answer, also when a call is
// still in line.
func TestHTTPQueuedTimesOut(t *testing.T) {
	c := testConfig()
	c.HTTP.RequestTimeout = envx.Millis(100 * time.Millisecond)
	met := NewMetrics()
	q := newQueued(func() (any, error) { return true, nil })
	url := serveHTTP(t, testDispatcher(t, c, Options{Metrics: met}, q.method()), HTTPOptions{})
	answer := postUntilAnswered(t, url, queuedCall)
	compareJSON(t, "late", answer, timedOut)
	if got := value(met.abandoned); got != 1 {
		t.Errorf("%v calls count as abandoned, want 1", got)
	}
	close(q.release)
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

// TestHTTPHalfCloseDropsNothing: a client that sends several requests and closes its half gets every answer, in order, however the
// network has cut what it sent.
func TestHTTPHalfCloseDropsNothing(t *testing.T) {
	address := strings.TrimPrefix(serveHTTP(t, testDispatcher(t, testConfig(), Options{}), HTTPOptions{}), "http://")
	var text string
	for i := range 3 {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_chainId"}`, i)
		text += fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	for _, cut := range []int{0, 1, 20, len(text) / 3, len(text)/3 + 1, len(text) - 1} {
		conn := must.Get(net.Dial("tcp", address))(t)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		io.WriteString(conn, text[:cut])
		io.WriteString(conn, text[cut:])
		must.Do(t, conn.(*net.TCPConn).CloseWrite())
		in := bufio.NewReader(conn)
		for i := range 3 {
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("cut at %d: answer %d: %v", cut, i, err)
			}
			answer, err := io.ReadAll(res.Body)
			res.Body.Close()
			compareJSON(t, "answer", string(answer), fmt.Sprintf(`{"result":"0x12a","jsonrpc":"2.0","id":%d}`, i))
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("cut at %d: after the answers: %v", cut, err)
		}
	}
}
