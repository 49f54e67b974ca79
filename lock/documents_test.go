package lock_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// Every schedule of docs/internals/SCHEDULES.md has its number, in order, and names tests that exist; every
// number that a test of this folder mentions is there.
func TestSchedulesNameTheirTests(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../docs/internals/SCHEDULES.md"))(t)
	named := regexp.MustCompile("`([a-z0-9/]+) ([Tt]est[A-Za-z0-9]+)`")
	sources := map[string]string{}
	rows := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		if !strings.HasPrefix(line, "| L") {
			continue
		}
		rows++
		if !strings.HasPrefix(line, "| L"+strconv.Itoa(rows)+" |") {
			t.Errorf("want L%d: %s", rows, line)
		}
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("L%d names no test", rows)
		}
		for _, m := range tests {
			if sources[m[1]] == "" {
				sources[m[1]] = goText(t, filepath.Join("..", m[1]))
			}
			if !strings.Contains(sources[m[1]], "func "+m[2]+"(t *testing.T") {
				t.Errorf("L%d: there is no %s in %s", rows, m[2], m[1])
			}
		}
	}
	for _, m := range regexp.MustCompile(`\bL([0-9]+)\b`).FindAllStringSubmatch(goText(t, "."), -1) {
		if n, err := strconv.Atoi(m[1]); err != nil || n < 1 || n > rows {
			t.Errorf("a test mentions L%s, of %d", m[1], rows)
		}
	}
}

// goText returns the sources of a folder.
func goText(t *testing.T, folder string) string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(folder, "*.go")))(t)
	var all strings.Builder
	for _, name := range files {
		text := must.Get(os.ReadFile(name))(t)
		all.Write(text)
	}
	return all.String()
}

// docs/internals/PROOF.md has each row of scripts/proof.sh, with its bounds and its result, and says of each mutation what it breaks;
// each mutation of the model has a row.
func TestProofRowsAreDocumented(t *testing.T) {
	t.Parallel()
	script, document := textOf(t, "../scripts/proof.sh"), textOf(t, "../docs/internals/PROOF.md")
	documented := 0
	rows := regexp.MustCompile(`(?m)^row (\S+) (\S+) \S+ (.+)$`).FindAllStringSubmatch(script, -1)
	for _, row := range rows {
		name, want, flags := row[1], row[2], row[3]
		result := want
		if want != "holds" {
			result = "broken: " + want
			if strings.Count(document, "| `"+name+"` |") != 2 {
				t.Errorf("docs/internals/PROOF.md does not say which rule %s breaks", name)
			}
		}
		if regexp.MustCompile("(?m)^\\| `" + name + "` \\| `" + flags + "` \\| [0-9,]+ \\| " + result + " \\|$").MatchString(document) {
			documented++
		} else {
			t.Errorf("docs/internals/PROOF.md lacks the row %s, %s, %s", name, flags, result)
		}
	}
	if got := strings.Count(document, "| holds |\n") + strings.Count(document, "| broken: "); got != documented || len(rows) < 20 {
		t.Errorf("docs/internals/PROOF.md has %d rows, and scripts/proof.sh %d", got, len(rows))
	}
	for _, m := range regexp.MustCompile(`\bM_[A-Z_]+`).FindAllString(textOf(t, "proof/sync.pml"), -1) {
		if !regexp.MustCompile(`(?m)^row .*-D` + m + `$`).MatchString(script) {
			t.Errorf("no row of scripts/proof.sh has the mutation %s", m)
		}
	}
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}
