//go:build unix

package ledger

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the exclusive lock of an open file if nobody has it.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
