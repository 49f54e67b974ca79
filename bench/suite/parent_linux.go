package main

import "syscall"

// withParent makes a process end with the suite, even if that is killed.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
