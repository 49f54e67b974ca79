package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// program is the path of the binary under test, set once by TestMain.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	zerolog.SetGlobalLevel(zerolog.Disabled) // of the proxies
	redis.SetLogger(silence{})               // servers that do not answer are what is tested here
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "fleet: needs a build and many processes; not run with -short")
		return
	}
	os.Exit(runAll(m))
}

// silence is a logger.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func runAll(m *testing.M) int {
	scratch, err := os.MkdirTemp("", "lockstep-fleet-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		return 1
	}
	defer os.RemoveAll(scratch)
	if program, err = binary(scratch); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		return 1
	}
	return m.Run()
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
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/lockstep: %w\n%s", err, out)
	}
	return path, nil
}

// lookAtSources makes a test depend on all sources. The go command reuses the
// result of a test unless something changed that it looked at, and imports do not
// lead it to the program.
var lookAtSources = sync.OnceValue(func() error {
	return filepath.WalkDir(filepath.Join("..", ".."), func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file that is gone again
		}
		if err == nil && entry.IsDir() {
			switch entry.Name() {
			case "node_modules", "bin", ".git":
				return filepath.SkipDir
			}
		}
		return err
	})
})

// rounds is how often a race is run: few times usually, many with LOCKSTEP_SOAK.
func rounds(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv("LOCKSTEP_SOAK")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("LOCKSTEP_SOAK is %q: want a number of rounds", text)
	}
	return max(n, usual)
}
