package harness

import "syscall"

// withParent makes a program end with the test process, even if that is killed.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
