package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
)

// echoRole is the main function of the baseline of cheap reads: the least that net/http
// can do for a request. It takes the body in and answers a constant.
func echoRole(ctx context.Context, out io.Writer) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	answer, kind := []byte(`{"jsonrpc":"2.0","id":1,"result":"0x12a"}`), []string{"application/json"}
	server := &http.Server{ReadHeaderTimeout: startLimit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the client is gone
		}
		w.Header()["Content-Type"] = kind
		_, _ = w.Write(answer) // as above
	})}
	if err := json.NewEncoder(out).Encode(naiveReady{Naive: true, URL: "http://" + l.Addr().String()}); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// echo starts the baseline of cheap reads.
func (l *lab) echo(ctx context.Context) (*relay, error) {
	p, err := l.start("echo", nil, l.self, "echo")
	if err != nil {
		return nil, err
	}
	return p.asBaseline(ctx)
}
