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
)

// exchangeRaw sends text and a last request, and returns all that the server says but for
// the dates and the order of fields.
func exchangeRaw(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text+"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for in := bufio.NewReader(conn); ; {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return said.String()
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Header.Del("Date")
		if err := res.Write(&said); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
}

// TestPlainIsTheSame: Run answers as net/http with the same handler does.
func TestPlainIsTheSame(t *testing.T) {
	for _, profile := range []Profile{ProfileHiero, ProfileEthereum} {
		c := testConfig()
		c.Profile = profile
		d := testDispatcher(t, c, Options{})
		o := HTTPOptions{Handlers: map[string]http.Handler{"/metrics": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "metrics")
		})}}
		ours := strings.TrimPrefix(serveHTTP(t, d, o), "http://")
		server := &http.Server{Handler: NewHTTPServer(d, o)}
		ln := listen(t)
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(ln) }()
		defer func() { server.Close(); <-ended }()
		for _, body := range []string{
			chainIDCall, chainIDBatch(2), chainIDBatch(101), "[]", "{}", "", "{", "[1,{}]", `"x"`, call1("eth_nope"), call1("eth_getBalance"),
			call1("eth_accounts"), call1("eth_mining"), call1("eth_gasPrice"), call1("eth_getCode"), call1("eth_feeHistory"),
			`{"jsonrpc":"2.0","method":"eth_chainId"}`, `{"jsonrpc":"2.0","method":"eth_accounts"}`, "[" + call1("eth_accounts") + "," + chainIDCall + "]",
			strings.Replace(call1("web3_sha3"), "[]", `["0x`+strings.Repeat("00", 20_000)+`"]`, 1),
		} {
			for _, head := range []string{
				"POST / HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\r\n",
				"POST /v1?key=x HTTP/1.1\r\nHost: x\r\nRequest-Id: b\r\nX-Request-Id: a\r\nX-Forwarded-For: 1.2.3.4\r\n",
				"POST / HTTP/1.1\r\nHost: x\r\nQuery: c\r\nRequest-Id: b\r\nForwarded: for=1.2.3.4\r\n",
				"POST / HTTP/1.1\r\nHost: x\r\nQuery: c\r\nContent-Encoding: identity\r\n",
				"POST /metrics HTTP/1.1\r\nHost: x\r\n",
			} {
				text := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
				if diff := cmp.Diff(exchangeRaw(t, ln.Addr().String(), text+text), exchangeRaw(t, ours, text+text)); diff != "" {
					t.Errorf("%s: %.200q (-net/http +Run)\n%s", profile, text, diff)
				}
			}
		}
	}
}

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

// TestPlainClientIP: the address is that of the socket, or what a proxy says if it is
// trusted.
func TestPlainClientIP(t *testing.T) {
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

// TestPlainQueued: calls that wait in line keep their ids while the memory that they came
// in is used by others, and time out as all calls over HTTP do.
func TestPlainQueued(t *testing.T) {
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

// TestPlainQueuedTimesOut: over HTTP somebody waits for the answer, also when a call is
// still in line.
func TestPlainQueuedTimesOut(t *testing.T) {
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

// TestPlainClientGoneWhileQueued: the context of a call in line ends with its client.
func TestPlainClientGoneWhileQueued(t *testing.T) {
	q := newQueued(func() (any, error) { return true, nil })
	url := serveHTTP(t, testDispatcher(t, testConfig(), Options{}, q.method()), HTTPOptions{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(queuedCall), queuedCall)
	ctx := <-q.begun
	conn.Close()
	<-ctx.Done()
	close(q.release)
}

// TestPlainKeepsParameters: a handler that was given up still reads its own parameters,
// whatever comes over the connection then.
func TestPlainKeepsParameters(t *testing.T) {
	c := testConfig()
	c.HTTP.RequestTimeout = envx.Millis(100 * time.Millisecond) // it is also the limit for reading a head
	release, read := make(chan struct{}), make(chan string, 1)
	late := Method{Name: "eth_late", Params: []Param{Required(Text())}, Handler: func(_ context.Context, p *Params) (any, error) {
		<-release
		read <- p.Text(0)
		return nil, nil
	}}
	url := serveHTTP(t, testDispatcher(t, c, Options{}, append(testMethods(), late)...), HTTPOptions{})
	const call = `[{"jsonrpc":"2.0","id":1,"method":"eth_late","params":["0x1111"]}]`
	answer := postUntilAnswered(t, url, call)
	compareJSON(t, "late", answer, "["+timedOut+"]")
	postUntilAnswered(t, url, strings.ReplaceAll(strings.Replace(call, "eth_late", "web3_sha3", 1), "1111", "2222"))
	close(release)
	if got := <-read; got != "0x1111" {
		t.Errorf("the parameter has become %s", got)
	}
}
