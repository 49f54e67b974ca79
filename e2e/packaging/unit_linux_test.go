package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// The unit's reload gives the service what /etc/lockstep/lockstep.env holds then: the service reads a copy, which the
// start and each reload make, and not the environment, which would be that of the start for ever.
func TestTheUnitReloadsItsSettings(t *testing.T) {
	unit := string(read(t, "../../packaging/lockstep.service"))
	setting := func(name string) (values []string) {
		for _, m := range regexp.MustCompile("(?m)^"+name+"=(.*)$").FindAllStringSubmatch(unit, -1) {
			values = append(values, m[1])
		}
		return values
	}
	if slices.ContainsFunc(setting("EnvironmentFile"), func(file string) bool { return strings.Contains(file, "lockstep.env") }) {
		t.Error("the settings are in the environment, which no reload changes")
	}
	if !slices.Contains(setting("Environment"), "LOCKSTEP_ENV_FILE=/run/lockstep/lockstep.env") || !slices.Contains(setting("RuntimeDirectory"), "lockstep") {
		t.Error("the service does not read the copy")
	}
	copies, reloads := setting("ExecStartPre"), setting("ExecReload")
	if len(copies) != 1 || len(reloads) != 2 || reloads[0] != copies[0] || !strings.Contains(reloads[1], "-HUP") {
		t.Fatalf("before the start %q, at a reload %q", copies, reloads)
	}
	command, begins := strings.CutPrefix(copies[0], "+/bin/sh -c '") // as root, who alone reads the file
	command, ends := strings.CutSuffix(command, "'")
	if !begins || !ends {
		t.Fatalf("not a command of a shell: %s", copies[0])
	}
	dir := t.TempDir()
	etc, run := filepath.Join(dir, "etc"), filepath.Join(dir, "run")
	for _, d := range []string{etc, run} {
		must.Do(t, os.Mkdir(d, 0o700))
	}
	command = strings.NewReplacer("/etc/lockstep", etc, "/run/lockstep", run).Replace(command)
	for _, settings := range []string{"TIER_1_RATE_LIMIT=1\n", "TIER_1_RATE_LIMIT=2\n"} {
		must.Do(t, os.WriteFile(filepath.Join(etc, "lockstep.env"), []byte(settings), 0o600))
		if said, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, said)
		}
		copied := filepath.Join(run, "lockstep.env")
		info, err := os.Stat(copied)
		if err != nil || info.Mode().Perm() != 0o600 || string(read(t, copied)) != settings {
			t.Errorf("the copy: %v, %v, %q", info, err, read(t, copied))
		}
	}
}
