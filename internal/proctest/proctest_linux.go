package proctest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// withParent makes a process end with this one, even if that is killed.
func withParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// stopLimit is for the threads of a process to stop, on a machine that is busy.
const stopLimit = time.Minute

// stopped waits until no thread of a process runs.
func stopped(pid int) error {
	for end := time.Now().Add(stopLimit); runs(pid); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("process %d still runs %v after SIGSTOP", pid, stopLimit)
		}
	}
	return nil
}

// runs tells whether some thread of a process is not stopped. One that has ended, with its process or before it, does not run.
func runs(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is a good one
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue
		}
		// The name, in parentheses, may contain anything; the state is the word after it.
		state := bytes.TrimLeft(text[bytes.LastIndexByte(text, ')')+1:], " ")
		if len(state) > 0 && bytes.IndexByte([]byte("TtZX"), state[0]) < 0 {
			return true
		}
	}
	return false
}

// KeepPort returns a port of the loopback interface that a server may listen on until release, as often as it starts: the
// kernel gives it to nobody who asks for any port. A socket that is bound and does not listen keeps it.
func KeepPort() (port int, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	release = func() { _ = syscall.Close(fd) }
	// Servers set the same option, and may therefore bind the port, too.
	err = errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	address, nameless := syscall.Getsockname(fd)
	if err = errors.Join(err, nameless); err != nil {
		release()
		return 0, nil, err
	}
	return address.(*syscall.SockaddrInet4).Port, release, nil
}
