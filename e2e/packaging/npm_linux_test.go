package packaging

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lockstep/internal/must"
)

// cpus are the names that npm has for machines.
var cpus = map[string]string{"amd64": "x64", "arm64": "arm64"}

// checkNPM looks into the package of each machine, installs that of this one in a fresh folder, without a network, and starts a
// chain by npx.
func checkNPM(t *testing.T, out string, programs map[string]string) {
	for machine, archived := range programs {
		dir := t.TempDir()
		output(t, "tar", "-xzf", filepath.Join(out, "lockstep-dev-linux-"+machine+"-"+version+".tgz"), "-C", dir)
		path := filepath.Join(dir, "package", "lockstep")
		program := must.Get(elf.Open(path))(t)
		_ = program.Close()
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o111 == 0 || program.Machine != headers[machine] || !bytes.Equal(read(t, path), read(t, archived)) {
			t.Errorf("the program in the package for %s is for %v, with the mode %v (%v); it has to be that of the archive", machine, program.Machine, info.Mode(), err)
		}
		var about struct {
			Name, Version string
			OS, CPU       []string
		}
		if err := json.Unmarshal(read(t, dir, "package", "package.json"), &about); err != nil ||
			about.Name != "lockstep-dev-linux-"+machine || about.Version != version || !slices.Equal(about.OS, []string{"linux"}) || !slices.Equal(about.CPU, []string{cpus[machine]}) {
			t.Errorf("the package for %s says %+v (%v)", machine, about, err)
		}
	}
	dir, home := t.TempDir(), t.TempDir()
	inFolder := func(name string, args ...string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "HOME="+home, "npm_config_cache="+home, "npm_config_offline=true", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false")
		return command
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o600))
	install := inFolder("npm", "install", filepath.Join(out, "lockstep-dev-linux-"+runtime.GOARCH+"-"+version+".tgz"), filepath.Join(out, "lockstep-dev-"+version+".tgz"))
	if text, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, text)
	}
	var front struct{ OptionalDependencies map[string]string }
	if err := json.Unmarshal(read(t, dir, "node_modules", "lockstep-dev", "package.json"), &front); err != nil || len(front.OptionalDependencies) != len(programs) || front.OptionalDependencies["lockstep-dev-linux-"+runtime.GOARCH] != version {
		t.Errorf("lockstep-dev brings %q (%v)", front.OptionalDependencies, err)
	}
	text, err := inFolder("npx", "lockstep-dev", "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("npx lockstep-dev --version: %v\n%s", err, text)
	}
	wantVersion(t, string(text))

	chain := inFolder("npx", "lockstep-dev", "--json", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0")
	chain.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // npx, node and the program
	lines := must.Get(chain.StdoutPipe())(t)
	must.Do(t, chain.Start())
	t.Cleanup(func() { _ = syscall.Kill(-chain.Process.Pid, syscall.SIGKILL) })
	printed := bufio.NewReader(lines)
	line, err := printed.ReadBytes('\n')
	var ready struct{ RPC string }
	if err != nil || json.Unmarshal(line, &ready) != nil || ready.RPC == "" {
		t.Fatalf("npx lockstep-dev --json: %v\n%s", err, line)
	}
	answer := must.Get(http.Post(ready.RPC, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`)))(t)
	defer answer.Body.Close()
	var block struct{ Result string }
	if err := json.NewDecoder(answer.Body).Decode(&block); err != nil || !strings.HasPrefix(block.Result, "0x") {
		t.Errorf("eth_blockNumber: %v %+v", err, block)
	}
	// npm passes the signal to its shell and no further. The chain ends all the same: it closes what it prints to.
	must.Do(t, chain.Process.Signal(syscall.SIGTERM))
	must.Get(io.Copy(io.Discard, printed))(t)
}
