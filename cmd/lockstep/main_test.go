package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/config"
	"lockstep/internal/must"
	"lockstep/internal/relay/apikey"
)

// lockstep runs one command line.
func lockstep(t *testing.T, env []string, args ...string) (code int, out, errs string) {
	t.Helper()
	t.Chdir(t.TempDir()) // no .env file of the developer's
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, streams{out: &stdout, err: &stderr, env: env})
	return code, stdout.String(), stderr.String()
}

func TestCommandLines(t *testing.T) {
	tests := map[string]struct {
		args     []string
		code     int
		out, err string // parts of stdout and stderr
	}{
		"nothing":             {nil, 2, "", "usage: lockstep"},
		"help":                {[]string{"help"}, 0, "  serve ", ""},
		"-h":                  {[]string{"-h"}, 0, "  devnet ", ""},
		"unknown command":     {[]string{"server"}, 2, "", `there is no command "server"`},
		"version":             {[]string{"version"}, 0, "lockstep dev", ""},
		"--version":           {[]string{"--version"}, 0, "lockstep dev", ""},
		"help of a command":   {[]string{"dev", "-h"}, 0, "", "-consensus-latency"},
		"unknown flag":        {[]string{"dev", "--port", "1"}, 2, "", "flag provided but not defined"},
		"argument left over":  {[]string{"devnet", "now"}, 2, "", `unexpected argument "now"`},
		"bad duration":        {[]string{"devnet", "--block-time", "soon"}, 2, "", "invalid value"},
		"bench without kind":  {[]string{"bench"}, 2, "", "lockstep bench send"},
		"bench help":          {[]string{"bench", "-h"}, 0, "", "lockstep bench send"},
		"serve unconfigured":  {[]string{"serve"}, 1, "", "HEDERA_NETWORK"},
		"locks bad word":      {[]string{"locks", "steal"}, 2, "", "lockstep locks release ADDRESS"},
		"locks bad address":   {[]string{"locks", "release", "0xabc"}, 2, "", `"0xabc" is not an address`},
		"locks bad flag":      {[]string{"locks", "off", "--hard"}, 2, "", "-hard"},
		"locks nobody there":  {[]string{"locks", "--admin", "http://127.0.0.1:1"}, 1, "", "ADMIN_ADDRESS"},
		"keys bad word":       {[]string{"keys", "sell"}, 2, "", "lockstep keys new NAME"},
		"keys bad name":       {[]string{"keys", "new", "my shop"}, 1, "", "a name has"},
		"keys bad methods":    {[]string{"keys", "new", "shop", "--methods", "e*h"}, 1, "", "methods: want"},
		"keys no file":        {[]string{"keys", "check", "missing.txt"}, 1, "", "missing.txt"},
		"health nobody there": {[]string{"health", "--url", "http://127.0.0.1:1"}, 1, "", "lockstep health: "},
		"control for others":  {[]string{"devnet", "--control", "0.0.0.0:0"}, 1, "", "only loopback addresses"},
		"a flag for a file":   {[]string{"devnet", "--env", "-h"}, 2, "", "want a file, and this is a flag"},
		"no file of faults":   {[]string{"devnet", "--faults", "missing.json"}, 1, "", "--faults"},
		"negative block time": {[]string{"devnet", "--block-time", "-1s", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0"}, 1, "", "block time"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, out, errs := lockstep(t, nil, test.args...)
			if code != test.code || !strings.Contains(out, test.out) || !strings.Contains(errs, test.err) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, test.code, out, errs)
			}
		})
	}
	_, overview, _ := lockstep(t, nil, "help")
	for _, c := range commands() {
		code, out, errs := lockstep(t, nil, c.name, "-h")
		if code != 0 || !strings.Contains(out+errs, "usage: lockstep "+c.name) || !strings.Contains(overview, "\n  "+c.name+" ") {
			t.Errorf("%s -h: exit code %d\n%s%s", c.name, code, out, errs)
		}
	}
}

// "config" prints all there is while something is wrong, and says what; "config check" says
// it alone, and its exit code tells.
func TestConfigWhileSomethingIsWrong(t *testing.T) {
	good := []string{
		`HEDERA_NETWORK={"127.0.0.1:50211":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:5551",
		"OPERATOR_ID_MAIN=0.0.1002", "OPERATOR_KEY_FORMAT=HEX_ECDSA", "OPERATOR_KEY_MAIN=105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524",
	}
	wrong := append([]string{"SERVER_PORT=http", "ENABLE_NONCE_ORDERNG=true"}, good[1:]...)
	watchers := []string{"RPC_URL=http://127.0.0.1:1", "FACTORY_ADDRESS=0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"}
	const near = "ENABLE_NONCE_ORDERNG is no setting; did you mean ENABLE_NONCE_ORDERING?"
	for name, test := range map[string]struct {
		env       []string
		args      []string
		code      int
		out, errs []string
	}{
		"config":           {wrong, []string{"config"}, 0, []string{"CHAIN_ID=0x12a\n", "OPERATOR_ID_MAIN=0.0.1002\n"}, []string{"SERVER_PORT: ", "HEDERA_NETWORK", near}},
		"check":            {wrong, []string{"config", "check"}, 1, nil, []string{"SERVER_PORT: ", "HEDERA_NETWORK", near}},
		"check of a good":  {good, []string{"config", "check"}, 0, []string{"the settings are good"}, nil},
		"misspelt alone":   {append([]string{"ENABLE_NONCE_ORDERNG=true"}, good...), []string{"config", "check"}, 1, nil, []string{near}},
		"what serve says":  {append([]string{"REDIS_ENABLED=true", "REDIS_URL=http://127.0.0.1:1", "ADMIN_ADDRESS=0.0.0.0:1"}, good...), []string{"config", "check"}, 1, nil, []string{"REDIS_URL: ", "ADMIN_TOKEN"}},
		"doubtful":         {append([]string{"CHAIN_ID=295", "SDK_REQUEST_TIMEOUT=10"}, "HEDERA_NETWORK=testnet", "MIRROR_NODE_URL=http://127.0.0.1:1", "READ_ONLY=true"), []string{"config", "check"}, 1, nil, []string{"CHAIN_ID is 295, and HEDERA_NETWORK=testnet has 296", "SDK_REQUEST_TIMEOUT is 10ms"}},
		"a word too many":  {good, []string{"config", "check", "relay"}, 2, nil, []string{`unexpected argument "relay"`}},
		"manager":          {[]string{"TXM_CHAINS=31337=http://127.0.0.1:1"}, []string{"config", "check", "txm"}, 0, []string{"the settings are good"}, nil},
		"no such driver":   {[]string{`TXM_CHAINS={"1":{"driver":"solana","url":["http://127.0.0.1:1"]}}`}, []string{"config", "check", "txm"}, 1, nil, []string{`TXM_CHAINS: chain 1: there is no driver "solana"`}},
		"no operator":      {[]string{`TXM_CHAINS={"298":{"driver":"hedera"}}`}, []string{"config", "check", "txm"}, 1, nil, []string{"OPERATOR_ID_MAIN"}},
		"manager misspelt": {[]string{"TXM_CHAINS=31337=http://127.0.0.1:1", "TXM_REDIS_ULR=x"}, []string{"config", "check", "txm"}, 1, nil, []string{"did you mean TXM_REDIS_URL?"}},
		"watchers":         {watchers, []string{"config", "check", "watch"}, 0, []string{"the settings are good"}, nil},
		"no secret":        {append([]string{"WATCH_SINKS=webhook:https://example.com/"}, watchers...), []string{"config", "check", "watch"}, 1, nil, []string{"WATCH_WEBHOOK_SECRET"}},
		"no endpoint":      {[]string{"RPC_URL=ftp://127.0.0.1:1", watchers[1]}, []string{"config", "check", "watch"}, 1, nil, []string{"chain 298: ", "http://host"}},
		"no factory":       {watchers[:1], []string{"config", "check", "watch"}, 1, nil, []string{"FACTORY_ADDRESS"}},
		"another argument": {good, []string{"config", "chek"}, 2, nil, []string{`unexpected argument "chek"`}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := lockstep(t, test.env, test.args...)
			if code != test.code || test.code == 1 && out != "" {
				t.Errorf("exit code %d, want %d\n%s%s", code, test.code, out, errs)
			}
			for text, parts := range map[string][]string{out: test.out, errs: test.errs} {
				for _, part := range parts {
					if !strings.Contains(text, part) {
						t.Errorf("%q is missing in:\n%s", part, text)
					}
				}
			}
		})
	}
}

func TestHealth(t *testing.T) {
	ready := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health/readiness" || !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if code, out, _ := lockstep(t, nil, "health", "--url", server.URL+"/"); code != 0 || out != "ready\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
	// Without a URL the port is that of the settings: a container's check needs no other one.
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	for _, env := range [][]string{
		{"SERVER_PORT=" + port, "WEB_SOCKET_HTTP_PORT=1"},
		{"SERVER_HOST=127.0.0.1", "SERVER_PORT=" + port},
		{"RPC_HTTP_ENABLED=false", "RPC_WS_ENABLED=true", "SERVER_PORT=1", "WEB_SOCKET_HTTP_PORT=" + port},
	} {
		if code, out, errs := lockstep(t, env, "health"); code != 0 || out != "ready\n" {
			t.Errorf("%q: exit code %d, %q, %q", env, code, out, errs)
		}
	}
	ready = false
	if code, _, errs := lockstep(t, nil, "health", "--url", server.URL); code != 1 || !strings.Contains(errs, "503") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// The requests and the table of `lockstep locks`.
func TestLocks(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		if r.URL.Path != "/locks" {
			_, _ = w.Write([]byte("{}\n"))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"lanes": []map[string]any{{
			"sender": "0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69", "strategy": "redis", "waiting": 7, "held": true, "nonce": 12,
			"fence": 99, "heldFor": 1_500_000_000, "expected": 12, "last": map[string]any{"Node": "0.0.5"},
		}, {"sender": "0x05fba803be258049a27b820088bab1cad2058871", "strategy": "redis", "waiting": 1, "heldBy": "p-q.3"}}})
	}))
	defer server.Close()
	env := []string{"ADMIN_TOKEN=sesame"}
	const sender = "0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"
	code, out, errs := lockstep(t, env, "locks", "--admin", server.URL)
	for _, part := range []string{sender, "nonce 12, fence 99", "1.5s", "7", "12", "0.0.5", "redis", "process p-q.3"} {
		if code != 0 || !strings.Contains(out, part) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, part, out, errs)
		}
	}
	address := server.Listener.Addr().String() // as ADMIN_ADDRESS is written
	for _, words := range [][]string{{"release", sender, "--admin", server.URL}, {"off", "--admin", address}, {"--admin", address, "on", "--json"}} {
		if code, _, errs := lockstep(t, env, append([]string{"locks"}, words...)...); code != 0 {
			t.Errorf("%v: exit code %d, %s", words, code, errs)
		}
	}
	want := []string{"GET /locks", "POST /locks/" + sender + "/release", "PUT /ordering", "PUT /ordering"}
	for i, line := range asked {
		if line != want[i]+" Bearer sesame" {
			t.Errorf("request %d was %q, want %q", i, line, want[i])
		}
	}
	if len(asked) != len(want) {
		t.Errorf("%d requests, want %d", len(asked), len(want))
	}
}

// Without --admin the console is where the settings say, and an error tells which address was asked and why. The token of a
// file of settings does not go to another address.
func TestWhereTheConsoleIs(t *testing.T) {
	var tokens []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(`{"lanes":[]}`))
	}))
	defer server.Close()
	here := server.Listener.Addr().String()
	_, port, _ := strings.Cut(here, ":")
	settings := filepath.Join(t.TempDir(), "service.env")
	must.Do(t, os.WriteFile(settings, []byte("ADMIN_ADDRESS="+here+"\nADMIN_TOKEN=sesame\n"), 0o600))
	inFile := config.EnvFile + "=" + settings
	for name, test := range map[string]struct {
		env, more []string
		token     string   // that the console is shown
		errs      []string // nil: it is reached
	}{
		"environment":         {[]string{"ADMIN_ADDRESS=" + here, "ADMIN_TOKEN=open"}, nil, "Bearer open", nil},
		"all addresses":       {[]string{"ADMIN_ADDRESS=:" + port}, nil, "", nil},
		"0.0.0.0":             {[]string{"ADMIN_ADDRESS=0.0.0.0:" + port}, nil, "", nil},
		"file":                {[]string{inFile}, nil, "Bearer sesame", nil},
		"flag":                {[]string{inFile, "ADMIN_ADDRESS=127.0.0.1:1"}, []string{"--admin", here}, "", nil},
		"nobody at the flag":  {nil, []string{"--admin", "127.0.0.1:1"}, "", []string{"http://127.0.0.1:1 is what --admin says"}},
		"nobody in settings":  {[]string{inFile, "ADMIN_ADDRESS=127.0.0.1:1"}, nil, "", []string{"http://127.0.0.1:1 is ADMIN_ADDRESS in the environment"}},
		"a port yet to be":    {[]string{"ADMIN_ADDRESS=127.0.0.1:0"}, nil, "", []string{"ADMIN_ADDRESS in the environment", "--admin"}},
		"no file of settings": {[]string{config.EnvFile + "=missing.env"}, nil, "", []string{config.EnvFile}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, command := range [][]string{{"locks"}, {"top", "--once"}} {
				if command[0] == "top" && test.errs == nil {
					continue // the same address; it wants a stream
				}
				tokens = nil
				code, _, errs := lockstep(t, test.env, append(command, test.more...)...)
				if (code != 0) != (test.errs != nil) {
					t.Errorf("%q: exit code %d, %s", command, code, errs)
				}
				for _, part := range test.errs {
					if !strings.Contains(errs, part) {
						t.Errorf("%q: no %q in %s", command, part, errs)
					}
				}
				if test.errs == nil && (len(tokens) != 1 || tokens[0] != test.token) {
					t.Errorf("%q: tokens %q, want %q", command, tokens, test.token)
				}
			}
		})
	}
}

// The exit code of diff says what a script wants to know.
func TestDiffExitCodes(t *testing.T) {
	serve := func(body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Key") == "sesame" {
				w.Write([]byte(`{}`))
				return
			}
			w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	one, two := serve(`{"result":1}`), serve(`{"result":2}`)
	tests := map[string]struct {
		args     []string
		stdin    string
		code     int
		out, err string
	}{
		"the same":         {[]string{"--a", one, "--b", one, "--requests", "-"}, `{"method":"m"}`, 0, "1 the same", ""},
		"different":        {[]string{"--a", one, "--b", two, "--requests", "-"}, `{"method":"m"}`, 1, "result: 1 != 2", "differ"},
		"ignored":          {[]string{"--a", one, "--b", two, "--requests", "-", "--ignore", "result"}, `{"method":"m"}`, 0, "1 the same", ""},
		"one is down":      {[]string{"--a", one, "--b", "http://127.0.0.1:1", "--requests", "-"}, `{"method":"m"}`, 2, "b gave no answer", "not everything"},
		"no requests":      {[]string{"--a", one, "--b", two, "--requests", "-"}, "# none", 2, "", "nothing to compare"},
		"broken requests":  {[]string{"--a", one, "--b", two, "--requests", "-"}, "what", 2, "", "line 1"},
		"no file":          {[]string{"--a", one, "--b", two, "--requests", "absent"}, "", 2, "", "absent"},
		"no file named":    {[]string{"--a", one, "--b", two}, "", 2, "", "--requests is missing"},
		"no URL":           {[]string{"--a", one, "--requests", "-"}, `{"method":"m"}`, 2, "", "b: want the URL"},
		"headers":          {[]string{"--a", one, "--b", two, "--header-a", "X-Key: sesame", "--header-b", "x-key: sesame", "--requests", "-"}, `{"method":"m"}`, 0, "1 the same", ""},
		"a bad header":     {[]string{"--a", one, "--b", two, "--header-a", "Bearer sesame", "--requests", "-"}, "", 2, "", "Name: value"},
		"generate, no URL": {[]string{"--generate"}, "", 2, "", "want the URL"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"diff"}, test.args...), streams{in: strings.NewReader(test.stdin), out: &out, err: &errs})
			if code != test.code || !strings.Contains(out.String(), test.out) || !strings.Contains(errs.String(), test.err) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, test.code, out.String(), errs.String())
			}
			if strings.Contains(out.String()+errs.String(), "sesame") {
				t.Errorf("a header is shown\nstdout: %s\nstderr: %s", out.String(), errs.String())
			}
		})
	}
	env := []string{"LOCKSTEP_DIFF_HEADERS_A=X-Other: 1\nX-Key: sesame", "LOCKSTEP_DIFF_HEADERS_B=X-Key: sesame"}
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"diff", "--a", serve(`1`), "--b", serve(`2`), "--requests", "-"}, streams{in: strings.NewReader(`{"method":"m"}`), out: &out, err: &errs, env: env})
	if code != 0 || strings.Contains(out.String()+errs.String(), "sesame") {
		t.Errorf("headers from the environment: exit code %d\n%s%s", code, out.String(), errs.String())
	}
}

// "config" shows the transaction manager's settings too, each setting once, and no secret.
func TestConfigShowsTheManagersSettings(t *testing.T) {
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	code, out, errs := lockstep(t, []string{
		"RELAYER_PRIVATE_KEYS=" + key, "TXM_CHAINS=1=https://node.example/v3/" + key, "DATABASE_URL=postgres://me:" + key + "@127.0.0.1/txm",
		"TXM_KEYSTORE_PASSWORD=" + key, "TXM_BASIC_USER=core", "TXM_BASIC_PASSWORD=" + key, "TXM_LEASE=12s", "TXM_SEND_TIMEOUT=nonsense",
	}, "config")
	for _, line := range []string{"TXM_LEASE=12s", "TXM_CHAINS=**********", "RELAYER_PRIVATE_KEYS=**********", "TXM_KEYSTORE_PASSWORD=**********", "TXM_BASIC_PASSWORD=**********", "TXM_BASIC_USER=core"} {
		if strings.Count("\n"+out, "\n"+line+"\n") != 1 {
			t.Errorf("the line %s is not there once", line)
		}
	}
	if code != 0 || strings.Contains(out+errs, key) || !strings.Contains(errs, "TXM_SEND_TIMEOUT") || strings.Count(out, "\nDATABASE_URL=") != 1 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// The watchers' process tells of names that may be misspelt, as the others do.
func TestWatchTellsOfMisspeltNames(t *testing.T) {
	_, _, errs := lockstep(t, []string{"WATCH_FIEL=watch.yaml", "DATABASE_URL=memory:"}, "watch")
	if !strings.Contains(errs, "WATCH_FIEL") || !strings.Contains(errs, "WATCH_FILE") {
		t.Errorf("stderr: %s", errs)
	}
}

// The file that LOCKSTEP_ENV_FILE names is read each time, so that a reload takes what has changed there.
func TestTheEnvFileIsReadAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(tier string) {
		text := "HEDERA_NETWORK=testnet\nMIRROR_NODE_URL=http://127.0.0.1:1\nREAD_ONLY=true\nTIER_1_RATE_LIMIT=" + tier + "\n"
		must.Do(t, os.WriteFile("service.env", []byte(text), 0o600))
	}
	for tier, want := range map[string]int{"7": 7, "8": 8} {
		write(tier)
		cfg, err := loadConfig(streams{env: []string{config.EnvFile + "=service.env"}})
		if err != nil || cfg.RPC.RateLimit.Tier1 != want {
			t.Errorf("%d, %v; want %d", cfg.RPC.RateLimit.Tier1, err, want)
		}
	}
}

// Bash completes commands, their words and their flags.
func TestCompletionInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not here")
	}
	var script bytes.Buffer
	if code := run(t.Context(), []string{"completion", "bash"}, streams{out: &script, err: &script}); code != 0 {
		t.Fatalf("exit code %d: %s", code, &script)
	}
	complete := func(words ...string) []string {
		t.Helper()
		line := script.String() + "\nCOMP_WORDS=(lockstep '" + strings.Join(words, "' '") + "')\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n" +
			"complete -p lockstep >/dev/null || exit 3\n_lockstep\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
		command := exec.CommandContext(t.Context(), bash, "--norc")
		command.Stdin = strings.NewReader(line)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", words, err, out)
		}
		return strings.Fields(string(out))
	}
	for _, c := range []struct {
		line, want []string
	}{
		{[]string{"lo"}, []string{"locks"}},
		{[]string{"completion", ""}, []string{"bash", "zsh", "fish"}},
		{[]string{"locks", "o"}, []string{"on", "off"}},
		{[]string{"config", "ch"}, []string{"check"}},
		{[]string{"watch", "s"}, []string{"schema"}},
		{[]string{"nothing", "x"}, nil},
	} {
		if got := complete(c.line...); !slices.Equal(got, c.want) {
			t.Errorf("%q is completed to %q, not to %q", c.line, got, c.want)
		}
	}
	if got := complete(""); len(got) != len(commands()) {
		t.Errorf("%d commands of %d: %q", len(got), len(commands()), got)
	}
	if got := complete("health", "-"); len(got) == 0 || !strings.HasPrefix(got[0], "-") {
		t.Errorf("flags of health: %q", got)
	}
}

// The other shells get every command; another one is a wrong command line.
func TestCompletionScripts(t *testing.T) {
	for shell, form := range map[string]string{"zsh": "'%s:", "fish": "-a %s -d"} {
		var script bytes.Buffer
		if code := run(t.Context(), []string{"completion", shell}, streams{out: &script, err: &script}); code != 0 {
			t.Fatalf("%s: exit code %d", shell, code)
		}
		for _, c := range commands() {
			if !strings.Contains(script.String(), strings.Replace(form, "%s", c.name, 1)) {
				t.Errorf("%s: %s is missing", shell, c.name)
			}
		}
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"completion", "cmd"}, streams{out: &out, err: &out}); code != 2 {
		t.Errorf("exit code %d", code)
	}
}

// JSON lines have the field names of the TypeScript relay when that is asked for, and its numbers
// for every level.
func TestJSONLinesInTheFieldNamesOfTheOtherRelay(t *testing.T) {
	for level, number := range map[slog.Level]float64{
		config.LevelTrace: 10, slog.LevelDebug: 20, slog.LevelInfo: 30, slog.LevelWarn: 40, slog.LevelError: 50, config.LevelFatal: 60,
	} {
		var text bytes.Buffer
		log := must.Get(newLogger(&text, config.Log{Level: "trace", Fields: "hiero"}))(t)
		before := time.Now().UnixMilli()
		log.Log(context.Background(), level, "said", "request_id", "r1", "error", errors.New("why"))
		var line map[string]any
		must.Do(t, json.Unmarshal(text.Bytes(), &line))
		if at, ok := line["time"].(float64); !ok || int64(at) < before || int64(at) > time.Now().UnixMilli() {
			t.Errorf("time %v", line["time"])
		}
		host, _ := os.Hostname()
		for key, want := range map[string]any{
			"level": number, "msg": "said", "requestId": "r1", "err": "why", "pid": float64(os.Getpid()), "hostname": host, "name": "lockstep",
		} {
			if line[key] != want {
				t.Errorf("%s is %v, want %v", key, line[key], want)
			}
		}
		if len(line) != 8 {
			t.Errorf("%d fields: %v", len(line), line)
		}
	}
}

// Every level has its name, in lines for people and in JSON, also those that log/slog does not know.
func TestNamesOfLevels(t *testing.T) {
	for level, name := range map[slog.Level]string{
		config.LevelTrace: "TRACE", slog.LevelDebug: "DEBUG", slog.LevelInfo: "INFO", slog.LevelWarn: "WARN", slog.LevelError: "ERROR", config.LevelFatal: "FATAL",
	} {
		for form, want := range map[bool]string{true: " level=" + name + " ", false: `"level":"` + name + `"`} {
			var text bytes.Buffer
			log := must.Get(newLogger(&text, config.Log{Level: "trace", Fields: "lockstep", Pretty: form}))(t)
			log.Log(context.Background(), level, "said", slog.Group("of", "level", level)) // not every field of that name is the line's level
			if line := text.String(); !strings.Contains(line, want) || level == config.LevelTrace && strings.Count(line, "TRACE") != 1 {
				t.Errorf("pretty %v: %s has no %s", form, line, want)
			}
		}
	}
}

// A duration has a unit: in the text, or by the format, whose numbers are milliseconds.
func TestDurationsInJSONLines(t *testing.T) {
	for fields, want := range map[string]any{"lockstep": "14.185095ms", "hiero": 14.185095} {
		var text bytes.Buffer
		log := must.Get(newLogger(&text, config.Log{Level: "info", Fields: fields}))(t)
		const took = 14_185_095 * time.Nanosecond
		log.Info("said", "took", took, slog.Group("of", "took", took))
		var line struct {
			Took any
			Of   struct{ Took any }
		}
		if err := json.Unmarshal(text.Bytes(), &line); err != nil || line.Took != want || line.Of.Took != want {
			t.Errorf("%s: %v, %s; want %v", fields, err, text.Bytes(), want)
		}
	}
}

// What a relay is has ten fields. On a terminal each has a line; a field from elsewhere cannot make one of its own.
func TestManyFieldsHaveLinesOfTheirOwn(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(spread{slog.NewTextHandler(&text, nil), &text, terminal{}})
	log.Info("few", "chain", "0x12a", "redis", "off")
	log.Info("many", "version", "1.0.0", "chain", "0x12a", "network", "testnet", "profile", "hiero", "operator", "0.0.2\nforged", "ordering", "on",
		"redis", "", "mirror", "127.0.0.1")
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 2+7 || !strings.Contains(lines[0], "chain=0x12a redis=off") || strings.TrimSpace(lines[3]) != "chain     0x12a" ||
		!strings.HasSuffix(lines[6], "0.0.2\uFFFDforged") {
		t.Errorf("%s", text.String())
	}
}

// What "keys new" prints second is a line of a file in which the key that it prints first is found.
func TestANewKeyFitsItsLine(t *testing.T) {
	code, out, errs := lockstep(t, nil, "keys", "new", "shop", "--calls", "600", "--weight", "1200", "--methods", "eth_*,net_version")
	token, line, ok := strings.Cut(strings.TrimSuffix(out, "\n"), "\n")
	if code != 0 || !ok || errs != "" {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	name := filepath.Join(t.TempDir(), "keys.txt")
	must.Do(t, os.WriteFile(name, []byte(line+"\n"), 0o600))
	if code, out, errs := lockstep(t, nil, "keys", "check", name); code != 0 || out != "the file is good; it has keys of 1 holders\n" {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	var f apikey.File
	must.Do(t, f.UnmarshalText([]byte(name)))
	h, ok := apikey.NewRing(f).Find(token)
	if !ok || h.Name != "shop" || h.Calls != 600 || h.Weight != 1200 || !h.May("eth_call") || h.May("debug_traceCall") {
		t.Errorf("%+v, %v", h, ok)
	}
	if strings.Contains(line, token[4:]) {
		t.Error("the line has the key")
	}
}
