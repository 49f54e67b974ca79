package rpc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"lockstep/internal/must"
)

const chainIDCall = `{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}`

func chainIDBatch(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(chainIDCall+",", n), ",") + "]"
}

const sha3Call = `{"jsonrpc":"2.0","id":1,"method":"web3_sha3","params":["0x68656c6c6f20776f726c64"]}`

// BenchmarkExchange is what a call costs without any network.
func BenchmarkExchange(b *testing.B) {
	for _, bench := range []struct {
		name, body string
		size       int
	}{
		{"chainId", chainIDCall, 1},
		{"parameter", sha3Call, 1},
		{"waiting", call1("eth_accounts"), 1},
		{"batch=100", chainIDBatch(100), 100},
	} {
		b.Run(bench.name, func(b *testing.B) {
			d := testDispatcher(b, testConfig(), Options{})
			body, size := []byte(bench.body), bench.size
			b.ReportAllocs()
			for b.Loop() {
				req := &requestContext{Context: context.Background(), request: Request{ID: newRequestID(), IP: "127.0.0.1"}}
				ex := d.begin(req, TransportHTTP, &req.request, body)
				ex.finish(req)
				ex.observeHTTP(req, ex.httpStatus())
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// BenchmarkHTTP is the whole way over loopback, client included, beside a handler of
// net/http that does nothing with the body; cpu-µs/op is the processor time of the process.
func BenchmarkHTTP(b *testing.B) {
	for _, bench := range []struct {
		name string
		body string
		echo bool
		size int
	}{
		{"echo", chainIDCall, true, 1},
		{"chainId", chainIDCall, false, 1},
		{"batch=100", chainIDBatch(100), false, 100},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var url string
			if bench.echo {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					w.Header()["Content-Type"] = []string{"application/json"}
					w.Write(body)
				}))
				defer server.Close()
				url = server.URL
			} else {
				url = serveHTTP(b, testDispatcher(b, testConfig(), Options{}), HTTPOptions{})
			}
			conn := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(b)
			defer conn.Close()
			request := fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n%s", len(bench.body), bench.body)
			in := bufio.NewReaderSize(conn, 64<<10)
			before := cpuTime(b)
			b.ReportAllocs()
			for b.Loop() {
				must.Get(conn.Write(request))(b)
				skipResponse(b, in)
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(time.Microsecond)/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(b.N*bench.size)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// BenchmarkWebSocket keeps a number of messages on their way over one connection.
func BenchmarkWebSocket(b *testing.B) {
	for _, depth := range []int{1, 32} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			url, _ := serveWS(b, testDispatcher(b, testConfig(), Options{}))
			ws := dial(b, url, nil)
			ws.SetReadDeadline(time.Time{})
			tokens := make(chan struct{}, depth)
			n := b.N
			go func() {
				for range n {
					tokens <- struct{}{}
					if ws.WriteMessage(websocket.TextMessage, []byte(chainIDCall)) != nil {
						return
					}
				}
			}()
			before := cpuTime(b)
			b.ReportAllocs()
			b.ResetTimer()
			for range n {
				if _, r, err := ws.NextReader(); err != nil {
					b.Fatal(err)
				} else if _, err := io.Copy(io.Discard, r); err != nil {
					b.Fatal(err)
				}
				<-tokens
			}
			b.StopTimer()
			b.ReportMetric(float64(cpuTime(b)-before)/float64(time.Microsecond)/float64(n), "cpu-µs/op")
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// skipResponse reads one response with next to no work of its own.
func skipResponse(b *testing.B, in *bufio.Reader) {
	length := 0
	for {
		line := must.Get(in.ReadSlice('\n'))(b)
		if len(line) <= 2 {
			break
		}
		if text, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			fmt.Sscan(text, &length)
		}
	}
	must.Get(in.Discard(length))(b)
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
