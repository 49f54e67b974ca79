package redisx

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// Patient wraps a connection so that a read deadline times the server, not this process:
// an answer that arrived in time counts, even if this process was too busy to look before
// the deadline was over. Without this a process that runs late takes a healthy server for
// dead, closes its connections and makes new ones, which makes it run later still.
func Patient(c net.Conn) net.Conn { return &patient{c} }

type patient struct{ net.Conn }

// Read reads what is there, also after the deadline.
func (p *patient) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		if late := look(p.Conn, b); late > 0 {
			return late, nil
		}
	}
	return n, err //nolint:wrapcheck // it is the connection's own
}

// SyscallConn is how the client finds out that an idle connection was closed.
func (p *patient) SyscallConn() (syscall.RawConn, error) {
	c, ok := p.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return c.SyscallConn() //nolint:wrapcheck // it is the connection's own
}

// dialer returns how connections are made: patient ones, in TLS if conf is not nil.
func dialer(timeout time.Duration, conf *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: timeout}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := plain.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the host, and is shown as it is
		}
		if conf == nil {
			return Patient(raw), nil
		}
		return secured(ctx, Patient(raw), addr, timeout, conf)
	}
}

func secured(ctx context.Context, raw net.Conn, addr string, timeout time.Duration, conf *tls.Config) (net.Conn, error) {
	if conf.ServerName == "" { // each server of a cluster has a name of its own
		host, _, _ := net.SplitHostPort(addr)
		conf = conf.Clone()
		conf.ServerName = host
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := tls.Client(raw, conf)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("redis at %s: %w", addr, err)
	}
	return c, nil
}
