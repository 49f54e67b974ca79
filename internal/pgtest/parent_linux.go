package pgtest

import "syscall"

// withParent makes the server end with the test process, even if that is killed.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
