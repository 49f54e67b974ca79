package txm_test

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

// packed makes the package of clients/typescript as npm publishes it, and installs it beside ethers and viem. It returns the folder.
func packed(t *testing.T) string {
	t.Helper()
	modules := must.Get(filepath.Abs("../node_modules"))(t)
	source, app := t.TempDir(), t.TempDir()
	must.Do(t, os.CopyFS(source, os.DirFS("../../clients/typescript")))
	_ = os.RemoveAll(filepath.Join(source, "node_modules")) // a developer's, which need not be ours
	link := func(from, to string) {
		must.Do(t, os.MkdirAll(filepath.Dir(to), 0o755))
		must.Do(t, os.Symlink(from, to))
	}
	link(modules, filepath.Join(source, "node_modules"))
	command(t, source, nil, "npm", "pack", "--silent", "--pack-destination", app)
	found, _ := filepath.Glob(filepath.Join(app, "*.tgz"))
	if len(found) != 1 {
		t.Fatalf("npm pack made %q", found)
	}
	installed := filepath.Join(app, "node_modules", "lockstep-txm")
	must.Do(t, os.MkdirAll(installed, 0o755))
	command(t, app, nil, "tar", "-xzf", found[0], "--strip-components=1", "-C", installed)
	for _, name := range []string{"ethers", "viem"} {
		link(filepath.Join(modules, name), filepath.Join(app, "node_modules", name))
	}
	return app
}

// command runs a program in a folder, and returns what it writes.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.StartLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(append(harness.Environment(), "HOME="+t.TempDir(), "npm_config_update_notifier=false"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestTypeScriptClient runs the package as npm publishes it: against servers that lose and lie, against a real manager on anvil with ethers
// and viem, and what its README tells newcomers to copy, which also has to be right for TypeScript.
func TestTypeScriptClient(t *testing.T) {
	app := packed(t)
	must.Do(t, os.CopyFS(app, os.DirFS("../../clients/typescript/test")))
	t.Run("trouble", func(t *testing.T) {
		t.Parallel()
		command(t, app, nil, "node", "--test", "trouble.test.mjs")
	})
	t.Run("manager", func(t *testing.T) {
		t.Parallel()
		chain := startAnvil(t)
		dir := t.TempDir()
		settings := []string{
			"DATABASE_URL=sqlite:" + filepath.Join(dir, "ledger.db"), "TXM_CHAINS=31337=" + chain.url, "RELAYER_PRIVATE_KEYS=" + strings.Join(devKeys[:2], ","),
			"TXM_ADDRESS=127.0.0.1:0", "TXM_BUMP_AFTER=10s", "PRETTY_LOGS_ENABLED=false",
		}
		var key string
		for _, role := range []string{"admin", "send"} { // the first has to be an admin's
			key = regexp.MustCompile(`lsk_\S+`).FindString(command(t, dir, settings, harness.Program(t), "txm", "key", "--role", role, "--label", role))
		}
		manager := harness.Command{Name: "manager", Settings: settings, Args: []string{"txm"}}.Start(t).URL("transaction manager is ready")
		command(t, app, []string{"TXM_URL=" + manager, "TXM_API_KEY=" + key, "RPC_URL=" + chain.url}, "node", "--test", "manager.test.mjs")
	})
	t.Run("README", func(t *testing.T) {
		t.Parallel()
		var ready struct{ RPC, TX string }
		harness.Command{Name: "dev", Args: []string{
			"dev", "--json", "--tx", "--tx-address", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0",
		}}.Start(t).ReadReady(&ready)
		text := must.Get(os.ReadFile("../../clients/typescript/README.md"))(t)
		here := strings.NewReplacer("http://127.0.0.1:7550", ready.TX, "http://127.0.0.1:7546", ready.RPC).Replace(string(text))
		wants := map[string]string{
			"pay.mjs": "still one payment: true\n", "ethers.mjs": "executed: 5\n", "viem.mjs": "executed: success\n", "follow.mjs": " tx.confirmed ",
		}
		var names []string
		for _, m := range regexp.MustCompile("(?s)`(\\w+\\.mjs)`:\n\n```js\n(.*?)```").FindAllStringSubmatch(here, -1) {
			must.Do(t, os.WriteFile(filepath.Join(app, m[1]), []byte(m[2]), 0o600))
			names = append(names, m[1])
			if out := command(t, app, nil, "node", m[1]); !strings.Contains(out, wants[m[1]]) || wants[m[1]] == "" {
				t.Errorf("%s prints %s", m[1], out)
			}
		}
		if len(names) != len(wants) {
			t.Errorf("README has %q", names)
		}
		tsc := must.Get(filepath.Abs("../node_modules/typescript/bin/tsc"))(t)
		command(t, app, nil, "node", append([]string{tsc, "--noEmit", "--allowJs", "--checkJs", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--types", ""}, names...)...)
	})
}
