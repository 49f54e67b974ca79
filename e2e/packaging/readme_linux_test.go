package packaging

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"lockstep/e2e/harness"
	"lockstep/internal/proctest"
)

// examples are the blocks of README that a shell can run, by the first words of a line in each.
func examples(t *testing.T, has ...string) []string {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(read(t, "../../README.md")), -1)
	var found []string
	for _, words := range has {
		for _, block := range blocks {
			if strings.Contains("\n"+block[1], "\n"+words) {
				found = append(found, block[1])
				break
			}
		}
	}
	if len(found) != len(has) {
		t.Fatalf("README has %d of the examples %q", len(found), has)
	}
	return found
}

// passReadme starts the development network of an image, in its root file system, as its user, in its working directory and with its
// environment, and asks it what README asks. Only the ports are others. (What else README says is run with the program itself.)
func passReadme(t *testing.T, root string, img image) {
	t.Helper()
	parts := examples(t, "curl -s http://127.0.0.1:7546", "lockstep dev --tx")
	args := []string{"dev", "--json", "--tx"}
	for _, listener := range []string{"tx-address", "http", "ws", "mirror", "mirror-grpc", "consensus", "ui"} {
		args = append(args, "--"+listener, "127.0.0.1:0")
	}
	command := commandIn(t, root, img.Config.Entrypoint[0], args...)
	if command.SysProcAttr.Chroot != "" {
		command.Dir = img.Config.WorkingDir
	}
	command.Env = append(append(img.Config.Env, harness.Patient()...), "SHUTDOWN_DRAIN_DELAY_MS=0")
	out := new(proctest.Tail)
	command.Stdout = out
	process, err := proctest.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if <-process.Ended; !command.ProcessState.Success() {
			t.Errorf("the image's program ended with %v", command.ProcessState)
		}
		if t.Failed() {
			t.Logf("the image's program said:\n%s", process.Log.Last(20_000))
		}
	}()
	var ready struct{ RPC, TX string }
	err = process.Until(t.Context(), harness.StartLimit, func() error { return json.NewDecoder(strings.NewReader(out.String())).Decode(&ready) })
	if err != nil || ready.RPC == "" || ready.TX == "" {
		t.Fatalf("the image's program is not ready: %v %s", err, out)
	}

	here := func(text, written, now string) string {
		t.Helper()
		if !strings.Contains(text, written) {
			t.Fatalf("no %s in\n%s", written, text)
		}
		return strings.ReplaceAll(text, written, now)
	}
	_, manager, _ := strings.Cut(parts[1], "\n") // the network runs already
	said := shell(t, "set -eu\n"+here(parts[0], "http://127.0.0.1:7546", ready.RPC)+here(manager, "127.0.0.1:7550", strings.TrimPrefix(ready.TX, "http://")))
	for _, want := range []string{`"result":"0x`, `"success":true`, `"idempotencyKey":"order-1"`} {
		if !strings.Contains(strings.ReplaceAll(said, `": "`, `":"`), want) {
			t.Errorf("the examples of README do not print %q:\n%s", want, said)
		}
	}
}

// shell runs a script where README is, as its reader does.
func shell(t *testing.T, script string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", script)
	command.Dir = "../.."
	command.Env = harness.Environment()
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, text)
	}
	return string(text)
}
