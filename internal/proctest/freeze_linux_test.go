package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"lockstep/internal/must"
)

const counterFile = "PROCTEST_COUNTER"

func TestMain(m *testing.M) {
	if path := os.Getenv(counterFile); path != "" {
		count(path)
	}
	os.Exit(m.Run())
}

// count counts in a file that others may look into, in more threads than there are processors.
func count(path string) {
	counter, err := mapped(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for range 4 * runtime.NumCPU() {
		go func() {
			runtime.LockOSThread()
			for {
				counter.Add(1)
			}
		}()
	}
	select {}
}

func mapped(path string) (*atomic.Int64, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	memory, err := syscall.Mmap(int(file.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*atomic.Int64)(unsafe.Pointer(&memory[0])), nil
}

// Nothing of a frozen process runs once Freeze has returned, however busy the machine is.
func TestFreeze(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counter")
	must.Do(t, os.WriteFile(path, make([]byte, os.Getpagesize()), 0o600))
	counter := must.Get(mapped(path))(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), counterFile+"="+path, "GOMAXPROCS="+strconv.Itoa(8*runtime.NumCPU()))
	child := must.Get(Start(cmd))(t)
	t.Cleanup(child.Kill)
	for range 20 {
		from := counter.Load()
		must.Until(t, "the child counts", func() bool { return counter.Load() != from })
		must.Do(t, child.Freeze())
		before := counter.Load()
		<-time.After(5 * time.Millisecond)
		if after := counter.Load(); after != before {
			t.Errorf("a frozen process counted from %d to %d", before, after)
		}
		must.Do(t, child.Thaw())
	}
}
