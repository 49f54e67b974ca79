package access

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"lockstep/internal/httpserve"
)

// Listener is the port of a surface that callers with keys use.
type Listener struct{ port net.Listener }

// Listen opens the port at the address that a setting names. While nobody has a key it opens on loopback alone, and
// returns refused for any other address; lock then draws a token for the door and prints it.
func (k *Keys) Listen(ctx context.Context, setting, address string, lock bool, refused error) (*Listener, error) {
	open, err := k.Open(ctx)
	if err != nil {
		return nil, err
	}
	if open && !Loopback(address) {
		return nil, fmt.Errorf("%s=%s: %w", setting, address, refused)
	}
	port, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	if open && lock {
		k.Door = Locked()
		k.Door.Tell(os.Stderr, setting, "http://"+port.Addr().String()+"/ui/")
	}
	return &Listener{port}, nil
}

// Addr is where it listens.
func (l *Listener) Addr() string { return l.port.Addr().String() }

// Close closes the port of a surface that is not going to be served. A nil Listener was never opened.
func (l *Listener) Close() {
	if l != nil {
		_ = l.port.Close() // nothing was served on it
	}
}

// Serve answers until ctx ends. Then it closes closing, which tells streams to end, and gives the requests that are on
// their way as long as drain.
func (l *Listener) Serve(ctx context.Context, handler http.Handler, log *slog.Logger, closing chan<- struct{}, drain time.Duration) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(func() { close(closing) })
	return httpserve.Until(ctx, server, l.port, drain)
}
