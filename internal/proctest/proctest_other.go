//go:build !linux

package proctest

import (
	"net"
	"syscall"
	"testing"
)

// WithParent has nothing to set on this system: a program whose parent is killed goes on.
func WithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func stopped(int) error { return nil }

// FreePort returns a port of the loopback interface that was free a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
