//go:build !linux

package proctest

import (
	"net"
	"syscall"
)

// withParent has nothing to set on this system: a program whose parent is killed goes on.
func withParent(*syscall.SysProcAttr) {}

func stopped(int) error { return nil }

// KeepPort returns a port of the loopback interface that was free a moment ago.
func KeepPort() (port int, release func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return 0, nil, err
	}
	return l.Addr().(*net.TCPAddr).Port, func() {}, l.Close()
}
