package e2e

import (
	"path/filepath"
	"testing"
)

// TestStateHasOneProcess: a second process is refused while the first one has the file, which a process
// that was killed has no longer.
func TestStateHasOneProcess(t *testing.T) {
	flags := []string{"devnet", "--consensus", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--json", "--state", filepath.Join(t.TempDir(), "state")}
	var ready struct{ Mirror string }
	first := start(t, nil, flags...)
	first.ReadReady(&ready)
	second := start(t, nil, flags...)
	if code := second.Exit(); code != 1 || !second.Log.Has("another process uses it") {
		t.Errorf("the second one ended with %d\n%s", code, second.Log)
	}
	first.Kill()
	start(t, nil, flags...).ReadReady(&ready)
}
