package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lockstep/internal/must"
)

// program is the path of the binary under test, set once by Main.
var program string

// root is the module's folder, seen from that of the tests; set once by Main.
var root string

// Main runs a package's tests after building the program, and returns the exit code. The
// root is the path to the module's folder; prepare says what else is missing.
// With -short nothing is run. LOCKSTEP_BINARY names a program to take instead.
func Main(m *testing.M, pathToRoot string, prepare ...func() error) int {
	flag.Parse()
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "e2e: needs a build and many processes; not run with -short")
		return 0
	}
	root = pathToRoot
	for _, step := range prepare {
		if err := step(); err != nil {
			return refuse(err)
		}
	}
	scratch, err := os.MkdirTemp("", "lockstep-e2e-")
	if err != nil {
		return refuse(err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if program, err = binary(scratch); err != nil {
		return refuse(err)
	}
	return m.Run()
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/lockstep")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/lockstep: %w\n%s", err, out)
	}
	return path, nil
}

// Program gives the binary's path to a test, which thereby depends on all the sources: the
// go command remembers what a running test looked at, and it cannot know from imports that a
// changed program makes an old result worthless.
func Program(t testing.TB) string {
	t.Helper()
	must.Do(t, lookAtSources())
	return program
}

// lookAtSources lists every folder of the module once.
var lookAtSources = sync.OnceValue(func() error {
	return filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
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

// Patient returns settings of a relay in tests that are not about its limits of time: a machine
// that stands still for a while changes nothing then. A test's own settings count before these.
func Patient() []string {
	return []string{
		"SERVER_REQUEST_TIMEOUT_MS=1200000", "SERVER_DRAIN_TIMEOUT_MS=120000", "SHUTDOWN_DRAIN_TIMEOUT_MS=120000",
		"SDK_GRPC_DEADLINE=120s", "SDK_REQUEST_TIMEOUT=240s", "MIRROR_NODE_TIMEOUT=240000", "MIRROR_NODE_RETRIES=5", "SIMULATION_TIMEOUT=240000",
		"SEND_RAW_TRANSACTION_SYNC_TIMEOUT=240000", "SEND_RAW_TRANSACTION_SYNC_MAX_TIMEOUT=600000",
		"NONCE_RECOVERY_MS=600000", "LOCK_MAX_HOLD_MS=240000", "FILTER_TTL=86400000", "WS_MAX_INACTIVITY_TTL=86400000", "WS_WRITE_TIMEOUT_MS=240000",
	}
}

// Environment is all that a program is to see of the developer's shell.
func Environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}
}
