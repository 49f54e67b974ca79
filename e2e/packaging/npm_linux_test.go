package packaging

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// checkNPM installs the packages for npm in a fresh folder, without a network, and starts a chain by npx.
func checkNPM(t *testing.T, out string, programs map[string]string) {
	dir, home := t.TempDir(), t.TempDir()
	inFolder := func(name string, args ...string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "HOME="+home, "npm_config_cache="+home, "npm_config_offline=true", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false")
		return command
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	install := inFolder("npm", "install", filepath.Join(out, "lockstep-dev-linux-"+runtime.GOARCH+"-"+version+".tgz"), filepath.Join(out, "lockstep-dev-"+version+".tgz"))
	if text, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, text)
	}
	if !bytes.Equal(read(t, dir, "node_modules", "lockstep-dev-linux-"+runtime.GOARCH, "lockstep"), read(t, programs[runtime.GOARCH])) {
		t.Error("the package for npm has another program than the archive")
	}
	text, err := inFolder("npx", "lockstep-dev", "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("npx lockstep-dev --version: %v\n%s", err, text)
	}
	wantVersion(t, string(text))

	chain := inFolder("npx", "lockstep-dev", "--json", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0")
	chain.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // npx, node and the program
	lines, err := chain.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := chain.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-chain.Process.Pid, syscall.SIGKILL) })
	printed := bufio.NewReader(lines)
	line, err := printed.ReadBytes('\n')
	var ready struct{ RPC string }
	if err != nil || json.Unmarshal(line, &ready) != nil || ready.RPC == "" {
		t.Fatalf("npx lockstep-dev --json: %v\n%s", err, line)
	}
	answer, err := http.Post(ready.RPC, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var block struct{ Result string }
	if err := json.NewDecoder(answer.Body).Decode(&block); err != nil || !strings.HasPrefix(block.Result, "0x") {
		t.Errorf("eth_blockNumber: %v %+v", err, block)
	}
	// npm passes the signal to its shell and no further. The chain ends all the same: it closes what it prints to.
	if err := chain.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, printed); err != nil {
		t.Fatal(err)
	}
}
