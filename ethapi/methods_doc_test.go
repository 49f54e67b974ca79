package ethapi

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

const (
	methodsFile  = "../docs/METHODS.md"
	methodsStart = "| Method | Parameters | What it answers |\n|---|---|---|\n"
)

// The table of docs/METHODS.md lists every method that the document describes, which
// is every one that there is.
func TestMethodsDocument(t *testing.T) {
	d, _ := readDocument(t, newRelay(t, newMirrorNode(t), managed))
	want := methodsStart
	for _, m := range d.Methods {
		var params []string
		for _, p := range m.Params {
			name := p.Name
			if !p.Required {
				name = "[" + name + "]"
			}
			params = append(params, name)
		}
		says := m.Summary
		if m.Result == nil {
			says += " **Refused:** -32601."
		} else if m.Description != "" {
			says += " " + m.Description
		}
		want += fmt.Sprintf("| `%s` | %s | %s |\n", m.Name, strings.Join(params, ", "), strings.ReplaceAll(says, "|", "\\|"))
	}
	content := must.Get(os.ReadFile(methodsFile))(t)
	before, got, found := strings.Cut(string(content), methodsStart)
	if !found {
		t.Fatalf("%s has no table", methodsFile)
	}
	if *update {
		must.Do(t, os.WriteFile(methodsFile, []byte(before+want), 0o644))
		return
	}
	if diff := cmp.Diff(want, methodsStart+got); diff != "" {
		t.Errorf("docs/METHODS.md is stale; run go test ./ethapi -run TestMethodsDocument -update (-want +got):\n%s", diff)
	}
}
