package rest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"lockstep/internal/access"
	"lockstep/internal/httpserve"
	"lockstep/internal/must"
)

// pipes is a port in memory, so that its deadlines are of a test's own clock.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.conns <- far
	return near, nil
}

// served runs a test against a listener with a handler, with time of its own.
func served(t *testing.T, handler http.Handler, run func(t *testing.T, port *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		port := &pipes{make(chan net.Conn), make(chan struct{})}
		must.Run(t, func(ctx context.Context) error {
			s := &Server{Options: Options{Log: slog.New(slog.DiscardHandler)}, closing: make(chan struct{})}
			return httpserve.Until(ctx, s.server(handler), port, time.Second)
		})
		run(t, port)
	})
}

// waits answers whether its caller was there for two minutes.
func waits(ctx context.Context) string {
	select {
	case <-ctx.Done():
		return "the caller is gone"
	case <-time.After(2 * time.Minute):
		return "waited"
	}
}

type waitInput struct{ Body struct{ Wish string } }

type waitOutput struct{ Body string }

// surface has one handler of each kind: one of the library that sets a deadline before it reads, a plain one, and a stream.
func surface() http.Handler {
	mux := http.NewServeMux()
	api := humago.New(mux, huma.DefaultConfig("test", "1"))
	huma.Register(api, huma.Operation{OperationID: "wait", Method: http.MethodPost, Path: "/wait"}, func(ctx context.Context, _ *waitInput) (*waitOutput, error) {
		return &waitOutput{waits(ctx)}, nil
	})
	mux.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, "cut", http.StatusRequestTimeout)
			return
		}
		fmt.Fprint(w, waits(r.Context()))
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		_ = access.Stream(r.Context(), w, 0, func(ctx context.Context, after int64) (string, int64, error) {
			<-ctx.Done()
			return "", after, nil
		})
	})
	return mux
}

// A request that has arrived whole is not cut by the deadlines for its arrival, however long its handler waits. net/http
// takes them away then, so nobody may set another one after the body has been read.
func TestWaitsOutliveTheReadDeadline(t *testing.T) {
	served(t, surface(), func(t *testing.T, port *pipes) {
		client := &http.Client{Transport: &http.Transport{DialContext: port.dial}}
		defer client.CloseIdleConnections()
		for _, call := range []struct{ method, path, body string }{
			{http.MethodPost, "/wait", `{"Wish":"x"}`}, {http.MethodPost, "/plain", "x"}, {http.MethodPost, "/plain", ""}, {http.MethodGet, "/plain", ""},
		} {
			request := must.Get(http.NewRequestWithContext(t.Context(), call.method, "http://localhost"+call.path, strings.NewReader(call.body)))(t)
			response, err := client.Do(request)
			if err != nil {
				t.Errorf("%+v: %v", call, err)
				continue
			}
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if !strings.Contains(string(text), "waited") {
				t.Errorf("%+v: %d %s", call, response.StatusCode, text)
			}
		}
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/stream", nil))(t)
		response := must.Get(client.Do(request))(t)
		defer response.Body.Close()
		begin := time.Now()
		for lines := bufio.NewScanner(response.Body); time.Since(begin) < 10*time.Minute; {
			if !lines.Scan() {
				t.Fatalf("the stream ended after %s: %v", time.Since(begin), lines.Err())
			}
		}
	})
}

// A body that never ends is cut all the same.
func TestSlowBodyIsCut(t *testing.T) {
	served(t, surface(), func(t *testing.T, port *pipes) {
		for _, path := range []string{"/wait", "/plain"} {
			conn := must.Get(port.dial(t.Context(), "", ""))(t)
			begin := time.Now()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", path)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			response.Body.Close()
			if after := time.Since(begin); response.StatusCode != http.StatusRequestTimeout || after > time.Minute {
				t.Errorf("%s: %d after %s", path, response.StatusCode, after)
			}
			conn.Close()
		}
	})
}
