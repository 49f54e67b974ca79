//go:build !unix

package ledger

import (
	"errors"
	"os"
)

// tryLock says that this system has no such lock.
func tryLock(*os.File) (bool, error) {
	return false, errors.New("a ledger in a file needs a system with flock")
}
