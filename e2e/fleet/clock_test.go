package fleet

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// wallClock is the clock of the day of all programs that a test starts and that use the C library, which are those
// of Redis.
type wallClock struct{ file string }

// newWallClock builds the library that shifts the clock, and has all programs that start from now on load it.
func newWallClock(t *testing.T) *wallClock {
	t.Helper()
	dir := t.TempDir()
	library := filepath.Join(dir, "clock.so")
	if out, err := exec.CommandContext(t.Context(), "cc", "-O2", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "clock.c")).CombinedOutput(); err != nil {
		t.Fatalf("this test needs a C compiler: %v\n%s", err, out)
	}
	c := &wallClock{file: filepath.Join(dir, "shift")}
	c.shift(t, 0)
	t.Setenv("LD_PRELOAD", library)
	t.Setenv("CLOCK_SHIFT", c.file)
	return c
}

// shift sets the clock so far ahead of the true time, at once.
func (c *wallClock) shift(t *testing.T, ahead time.Duration) {
	t.Helper()
	file, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second)), 0) //nolint:gosec // two's complement is meant
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
