//go:build !linux

package redistest

import (
	"net"
	"syscall"
	"testing"
)

func withParent() *syscall.SysProcAttr { return nil }

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
