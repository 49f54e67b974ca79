package e2e

import (
	"strings"
	"testing"

	"lockstep/e2e/harness"
)

// start runs the program, which SIGTERM ends with the test.
func start(t *testing.T, env []string, args ...string) *harness.Process {
	t.Helper()
	env = append(harness.Patient(), env...)
	return harness.Command{Name: strings.Join(args, " "), Settings: env, Args: args, Shown: 64 << 10}.Start(t)
}
