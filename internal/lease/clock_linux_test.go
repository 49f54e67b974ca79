package lease

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/internal/must"
)

// suspended is set in a process whose machine seems to have slept for suspendedFor.
const (
	suspended    = "LOCKSTEP_TEST_SUSPENDED"
	suspendedFor = 1_000_000 * time.Second
)

func clockOf(t *testing.T, id int32) time.Duration {
	t.Helper()
	var at unix.Timespec
	must.Do(t, unix.ClockGettime(id, &at))
	return time.Duration(at.Nano())
}

// TestTrustCountsSuspendedTime: trust ends by the clock that goes on while the machine is suspended. A process in a namespace of
// times whose machine was suspended for long shows that it is no other clock.
func TestTrustCountsSuspendedTime(t *testing.T) {
	before, got, after := clockOf(t, unix.CLOCK_BOOTTIME), now(), clockOf(t, unix.CLOCK_BOOTTIME)
	if got < before || got > after {
		t.Errorf("it is %s, which is not between %s and %s", got, before, after)
	}
	if os.Getenv(suspended) != "" {
		awake := clockOf(t, unix.CLOCK_MONOTONIC)
		if l := (&Lease{trusted: awake + suspendedFor/2}); l.Trusted(0) {
			t.Error("a lease is trusted whose time passed while the machine was suspended")
		}
		if l := (&Lease{trusted: awake + 2*suspendedFor}); !l.Trusted(0) {
			t.Error("a lease is not trusted whose time has not passed")
		}
		return
	}
	inNamespace := func(words ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--user", "--time", "--boottime", "1000000", "--"}, words...)...)
		cmd.Env = append(os.Environ(), suspended+"=1")
		return cmd
	}
	if out, err := inNamespace("true").CombinedOutput(); err != nil {
		t.Skipf("this machine gives no namespace of times: %v %s", err, out)
	}
	self := must.Get(os.Executable())(t)
	if out, err := inNamespace(self, "-test.run=^TestTrustCountsSuspendedTime$").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
