package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"lockstep/internal/proctest"
)

// The machine's noise is measured by a server that does nothing: net/http alone, in a process of
// its own, sends back what it gets. It is asked in the same way and at the same time as the
// relay by a client that does nothing but that.

// echoCommand is the argument with which this program is that server.
const echoCommand = "echo"

// serveEcho serves until it is killed, and prints its address.
func serveEcho(ctx context.Context, out io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return err
	}
	const most = 1 << 10
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, io.LimitReader(r.Body, most)) // a client that has gone
	})}
	return server.Serve(listener)
}

// openEcho starts the server.
func (l *lab) openEcho(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if l.echo, err = proctest.Start(exec.CommandContext(ctx, self, echoCommand)); err != nil {
		return err
	}
	return l.echo.Says(ctx, startLimit, func(line []byte) bool {
		l.echoURL = "http://" + strings.TrimSpace(string(line))
		return true
	})
}
