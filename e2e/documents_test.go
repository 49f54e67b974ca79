package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

// What newcomers copy from README and the guides is run here as it stands. Only what a machine without internet and
// without the default ports cannot do is exchanged: addresses, installations, and processes that never end.
func TestDocumentsRun(t *testing.T) {
	t.Parallel()
	for _, document := range []struct {
		name     string
		packages string   // the folder whose node_modules has what the document installs
		answers  []string // what its commands print, among other things
	}{
		{"README.md", "", []string{`"result":"0x`, `"success":true`, `"watch":"payments"`, ", 0 different", "executed, tx               100"}},
		{"docs/guides/hardhat.md", "hardhat3", []string{"1 passing"}},
		{"docs/guides/foundry.md", "", []string{"298\n", "status               1"}},
		{"docs/guides/viem-ethers.md", ".", []string{"executed: 5\n", "executed: success\n"}},
		{"docs/guides/metamask.md", "", nil},
		{"docs/guides/from-local-node.md", "", []string{`"account":"0.0.1002"`, `"result":"0x12a"`}},
	} {
		t.Run(filepath.Base(document.name), func(t *testing.T) {
			t.Parallel()
			text := must.Get(os.ReadFile(filepath.Join("..", document.name)))(t)
			n := startDev(t, nil, "--quiet", "--tx", "--tx-address", "127.0.0.1:0", "--nodes", "4", "--consensus-latency", "100ms")
			here := strings.NewReplacer(
				"127.0.0.1:7546", host(n.RPC), "127.0.0.1:8546", host(n.WS), "127.0.0.1:5551", host(n.Mirror), "127.0.0.1:7550", host(n.TX),
				"lockstep bench send", "lockstep bench send --rpc "+n.RPC,
				"lockstep serve", "lockstep config check",
				// Watching has no end: the first event is enough.
				"lockstep watch watch.yaml", `{ lockstep watch watch.yaml & echo $! > watching; wait; } | { grep -m1 '"event"'; kill "$(cat watching)"; }`,
				"/run/secrets/operator", "key.hex",
			).Replace(string(text))
			dir := t.TempDir()
			writeFilesOf(t, here, dir)
			if document.packages != "" {
				modules := must.Get(filepath.Abs(filepath.Join(document.packages, "node_modules")))(t)
				must.Do(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
			}
			out := runScript(t, dir, scriptOf(here))
			for _, answer := range document.answers {
				if !strings.Contains(out, answer) {
					t.Errorf("no %q in what %s prints:\n%s", answer, document.name, out)
				}
			}
		})
	}
}

// host is host:port of a URL.
func host(url string) string { _, at, _ := strings.Cut(url, "://"); return at }

// writeFilesOf writes each block that follows a line such as "in `ethers.mjs`:" into that file.
func writeFilesOf(t *testing.T, text, dir string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)`([\\w/.-]+\\.\\w+)`[^`\n]*:\n\n```\\w+\n(.*?)```").FindAllStringSubmatch(text, -1) {
		name, content := filepath.Join(dir, m[1]), m[2]
		if m[1] == "hardhat.config.js" { // the compiler comes from npm: there is nothing to download it from
			content = strings.Replace(content, "solidity: '0.8.28'",
				"solidity: { version: '0.8.37', path: (await import('node:url')).fileURLToPath(import.meta.resolve('solc/soljson.js')) }", 1)
			must.Do(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600))
		}
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Do(t, os.WriteFile(name, []byte(content), 0o600))
	}
}

// scriptOf is what a document's shell blocks say, without what has been done already.
func scriptOf(text string) string {
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if !regexp.MustCompile(`^(lockstep dev|npm install|make |docker )`).MatchString(line) {
				script.WriteString(line)
			}
		}
	}
	// The key is made before it is used, whatever the order of the blocks.
	return "echo 0x105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524 > key.hex\n" + script.String()
}

func runScript(t *testing.T, dir, script string) string {
	t.Helper()
	bin := t.TempDir()
	tools := map[string]string{"lockstep": harness.Program(t), "cast": cast}
	for name, path := range tools {
		path := must.Get(filepath.Abs(path))(t)
		must.Do(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "NO_COLOR=1", "ETH_RPC_TIMEOUT=1200", "ETH_TIMEOUT=1200",
		"HARDHAT_DISABLE_TELEMETRY_PROMPT=true", "WATCH_ADDRESS=off",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}
