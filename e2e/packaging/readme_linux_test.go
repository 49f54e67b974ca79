package packaging

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"lockstep/e2e/harness"
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
// environment, and runs the examples of README against it. Only the ports are others, and the order waits longer for a
// nonce that is missing, because this machine may be slow.
func passReadme(t *testing.T, root string, img image) {
	t.Helper()
	parts := examples(t, "cast balance", "curl -s 127.0.0.1:7550", "ENABLE_NONCE_ORDERING=true NONCE_GAP_HOLD_MS=2000 lockstep dev", "for i in $(seq")
	send, manager, start, burst := parts[0], parts[1], strings.Fields(parts[2]), parts[3]
	var settings []string
	for len(start) > 0 && start[0] != "lockstep" {
		settings, start = append(settings, start[0]), start[1:]
	}
	args := append(start[1:], "--json", "--tx")
	for _, listener := range []string{"tx-address", "http", "ws", "mirror", "mirror-grpc", "consensus", "ui"} {
		args = append(args, "--"+listener, "127.0.0.1:0")
	}
	command := commandIn(t, root, img.Config.Entrypoint[0], args...)
	if command.SysProcAttr.Chroot != "" {
		command.Dir = img.Config.WorkingDir
	}
	command.Env = append(append(append(img.Config.Env, settings...), harness.Patient()...), "NONCE_GAP_HOLD_MS=240000", "SHUTDOWN_DRAIN_DELAY_MS=0")
	log := &harness.Tail{Limit: 1 << 20}
	command.Stderr = log
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil {
			t.Errorf("the image's program ended with %v", err)
		}
		if t.Failed() {
			t.Logf("the image's program said:\n%s", log.Last(20_000))
		}
	}()
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	var ready struct{ RPC, TX string }
	if err != nil || json.Unmarshal(line, &ready) != nil || ready.RPC == "" || ready.TX == "" {
		t.Fatalf("the image's program is not ready: %v %s", err, line)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // so that it never blocks on a full pipe

	here := func(text, written, now string) string {
		t.Helper()
		if !strings.Contains(text, written) {
			t.Fatalf("no %s in\n%s", written, text)
		}
		return strings.ReplaceAll(text, written, now)
	}
	manager = here(manager, "127.0.0.1:7550", strings.TrimPrefix(ready.TX, "http://"))
	questions, stream, ok := strings.Cut(manager, "curl -N ")
	if !ok {
		t.Fatalf("no stream in\n%s", manager)
	}
	script := "set -eu\n" + here(send, "http://127.0.0.1:7546", ready.RPC) + questions + burst + "echo N=$N\n"
	said := shell(t, script)
	for _, want := range []string{"\nstatus               1 (success)\n", `"idempotencyKey":"order-1"`, "transactionsRoot"} {
		if !strings.Contains(strings.ReplaceAll(said, `": "`, `":"`), want) {
			t.Errorf("the examples of README do not print %q:\n%s", want, said)
		}
	}
	last := strings.Split(strings.TrimSpace(said), "\n")
	first, err1 := strconv.Atoi(strings.TrimPrefix(last[len(last)-1], "N="))
	end, err2 := strconv.Atoi(last[len(last)-2])
	if err1 != nil || err2 != nil || end != first+50 {
		t.Errorf("after the burst of README the nonce is %q, and before it was %q", last[len(last)-2], last[len(last)-1])
	}
	intent := regexp.MustCompile(`"id": ?"([^"]+)"`).FindStringSubmatch(said)
	if intent == nil {
		t.Fatalf("no intent in\n%s", said)
	}
	follow(t, "curl -N "+stream, intent[1])
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

// follow runs a script that does not end, until it prints what is wanted.
func follow(t *testing.T, script, wanted string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", "exec "+script)
	command.Env = harness.Environment()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.Contains(lines.Text(), wanted) {
		}
		found <- strings.Contains(lines.Text(), wanted)
	}()
	harness.Until(t, harness.StartLimit, script+" prints "+wanted, func() bool { return len(found) == 1 })
	if !<-found {
		t.Errorf("%s ends and has not printed %s", script, wanted)
	}
	_ = command.Process.Signal(os.Interrupt)
	_ = command.Wait() // by the signal
}
