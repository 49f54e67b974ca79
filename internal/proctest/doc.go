// Package proctest has what tests and benchmarks need of the operating system to run other programs: that those end with
// the program that started them, that they can be stopped as a paused machine is, and ports that nobody else takes.
package proctest

import (
	"os"
	"syscall"
)

// Freeze stops a process as a paused machine does: nothing of it runs, its connections stay. It returns when that is so.
// The kernel gives the signal to one thread, which stops the others when it next has a processor; on a busy machine they
// can answer a request in between.
func Freeze(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return stopped(p.Pid)
}

// Thaw lets a frozen process go on.
func Thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
