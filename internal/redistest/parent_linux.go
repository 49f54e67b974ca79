package redistest

import (
	"syscall"
	"testing"
)

// withParent makes the server end with the test process, even if that is killed.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// FreePort returns a port of the loopback interface that a server may listen on until the test
// ends, as often as it starts: the kernel gives it to nobody who asks for any port. A socket that
// is bound and does not listen keeps it.
func FreePort(t testing.TB) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	// Servers set the same option, and may therefore bind the port, too.
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	address, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return address.(*syscall.SockaddrInet4).Port
}
