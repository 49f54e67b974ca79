package fleet

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/internal/must"
)

// wallClock is the clock of the day of some programs.
type wallClock struct{ file string } // which has the seconds that it is ahead

func newWallClock(t *testing.T) *wallClock {
	t.Helper()
	c := &wallClock{file: filepath.Join(t.TempDir(), "shift")}
	c.shift(t, 0)
	return c
}

// clockOfRedis builds the library that shifts the clock, and has all programs that start from now on load it, if they use
// the C library and see the test's environment. These are the servers of Redis.
func clockOfRedis(t *testing.T) *wallClock {
	t.Helper()
	dir := t.TempDir()
	library := filepath.Join(dir, "clock.so")
	if out, err := exec.CommandContext(t.Context(), "cc", "-O2", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "clock.c")).CombinedOutput(); err != nil {
		t.Fatalf("this test needs a C compiler: %v\n%s", err, out)
	}
	c := newWallClock(t)
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

// dayShift names the file of the clock to a program of dayProgram.
const dayShift = "CLOCK_OF_THE_DAY_SHIFT"

// dayProgram builds lockstep so that its clock of the day can be set. A program in Go asks the kernel itself what time it
// is, past every library, so this is done in its time.Now. As on a machine whose clock is set, the monotonic part of what
// time.Now returns goes on.
func dayProgram(t *testing.T) string {
	t.Helper()
	command := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = filepath.Join("..", "..")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	dir, source := t.TempDir(), filepath.Join(command("env", "GOROOT"), "src", "time")
	text := must.Get(os.ReadFile(filepath.Join(source, "time.go")))(t)
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), now) != 1 {
		t.Fatal("time.Now of this version of Go looks different: this test has to learn it")
	}
	shift := must.Get(os.ReadFile(filepath.Join("testdata", "shift.go.txt")))(t)
	replace := map[string]string{}
	for name, content := range map[string]string{
		"time.go":  strings.Replace(string(text), now, now+"\tsec += dayShift()\n", 1),
		"shift.go": strings.ReplaceAll(string(shift), "DAY_SHIFT", dayShift),
	} {
		replace[filepath.Join(source, name)] = filepath.Join(dir, name)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "lockstep")
	command("build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./cmd/lockstep")
	return program
}
