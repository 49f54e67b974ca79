package proctest

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockstep/internal/must"
)

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p := must.Get(Start(exec.CommandContext(t.Context(), "sh", "-c", script)))(t)
	t.Cleanup(p.Kill)
	return p
}

// A program is ready when its log says so, and one that ends before is not waited for.
func TestReady(t *testing.T) {
	ready := func(line []byte) bool { return string(line) == "ready\n" }
	if err := shell(t, "echo hello; echo ready; exec sleep 600").Says(t.Context(), time.Minute, ready); err != nil {
		t.Error(err)
	}
	if err := shell(t, "echo ready; exit 1").Says(t.Context(), time.Minute, ready); err != nil {
		t.Errorf("it was ready, and then it ended: %v", err)
	}
	err := shell(t, "echo broken >&2; printf ready; exit 1").Says(t.Context(), time.Hour, ready)
	if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v, want %v and the log", err, ErrEnded)
	}
	if err := shell(t, "exec sleep 600").Says(t.Context(), time.Millisecond, ready); err == nil || errors.Is(err, ErrEnded) {
		t.Errorf("it was never ready: %v", err)
	}
}

// The log keeps its end.
func TestTail(t *testing.T) {
	var log Tail
	for i := range 12 {
		must.Get(log.Write(bytes.Repeat([]byte{'a' + byte(i)}, tailKept/4)))(t)
	}
	must.Get(log.Write([]byte("end")))(t)
	if n := len(log.String()); n < tailKept || n > 2*tailKept || log.Last(4) != "lend" || !log.Has("klll") || log.Has("a") {
		t.Errorf("%d bytes that end with %q", n, log.Last(4))
	}
}
