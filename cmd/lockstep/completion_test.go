package main

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

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
