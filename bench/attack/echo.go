package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
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
	l.echo = exec.CommandContext(ctx, self, echoCommand)
	out, err := l.echo.StdoutPipe()
	if err != nil {
		return err
	}
	if err := l.echo.Start(); err != nil {
		return err
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the echo server did not start: %w", err)
	}
	l.echoURL = "http://" + strings.TrimSpace(address)
	return nil
}
