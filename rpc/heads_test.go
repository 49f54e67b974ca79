package rpc

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/internal/must"
)

// manyFields is a head of many short fields, without its end.
func manyFields(fields int) string {
	var b strings.Builder
	b.WriteString("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n")
	for i := range fields {
		fmt.Fprintf(&b, "%x:\n", i+1<<12)
	}
	return b.String()
}

// TestHeadsAreCounted: heads of thousands of fields, finished or not, hold no more than a client may, on the ports of both transports. What they
// held is given back, and usual requests are served meanwhile.
func TestHeadsAreCounted(t *testing.T) {
	servers := map[string]func(*testing.T, *Dispatcher) string{
		"http": func(t *testing.T, d *Dispatcher) string {
			return strings.TrimPrefix(serveHTTP(t, d, HTTPOptions{}), "http://")
		},
		"websocket": func(t *testing.T, d *Dispatcher) string {
			url, _ := serveWS(t, d)
			return strings.TrimPrefix(url, "ws://")
		},
	}
	for transport, serve := range servers {
		for state, end := range map[string]string{"unfinished": "", "without its body": "\r\n"} {
			t.Run(transport+", "+state, func(t *testing.T) {
				memory := littleMemory()
				d := withLongAnswers(t, memory)
				address := serve(t, d)
				const heads, fields = 40, 4500 // of about 0.8 MB each; a client may hold 16 MB
				var conns []net.Conn
				refused := make(chan bool, heads)
				for range heads {
					conn := must.Get(net.Dial("tcp", address))(t)
					defer conn.Close()
					conns = append(conns, conn)
					go func() {
						_, _ = io.WriteString(conn, manyFields(fields)+end)
						_, _ = io.Copy(io.Discard, conn)
						refused <- true
					}()
				}
				for range heads / 4 {
					select {
					case <-refused:
					case <-time.After(patience):
						t.Fatalf("nobody is refused; %d bytes are held", memory.Used())
					}
				}
				if used := memory.Used(); used > 16*megabyte {
					t.Errorf("%d bytes are held", used)
				}
				if transport == "http" {
					if status, text := post(t, "http://"+address, call1("eth_chainId")); status != http.StatusOK {
						t.Errorf("another request: %d %s", status, text)
					}
				}
				for _, conn := range conns {
					_ = conn.Close()
				}
				eventually(t, func() bool { return memory.Used() == 0 })
			})
		}
	}
}
