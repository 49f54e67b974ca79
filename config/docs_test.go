package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

var update = flag.Bool("update", false, "rewrite docs/CONFIG.md")

const docsFile = "../docs/CONFIG.md"

// firstSettings are those that a relay is set up with.
var firstSettings = []string{
	"CHAIN_ID", "HEDERA_NETWORK", "MIRROR_NODE_URL", "OPERATOR_ID_MAIN", "OPERATOR_KEY_MAIN", "OPERATOR_KEY_FORMAT", "SERVER_PORT", "RPC_WS_ENABLED",
	"ENABLE_NONCE_ORDERING", "NONCE_GAP_HOLD_MS", "REDIS_ENABLED", "REDIS_URL",
}

// TestDocs makes docs/CONFIG.md from the tags and comments of the settings and
// compares it with the file.
func TestDocs(t *testing.T) {
	want := document(t)
	if *update {
		must.Do(t, os.WriteFile(docsFile, []byte(want), 0o644))
	}
	got := must.Get(os.ReadFile(docsFile))(t)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/CONFIG.md is stale; run `make generate` (-want +got):\n%s", diff)
	}
}

// docs/MIGRATION.md tells the defaults that are others than those of the TypeScript relay, as they are,
// and how many settings there are.
func TestMigrationTellsTheDefaults(t *testing.T) {
	text := must.Get(os.ReadFile("../docs/MIGRATION.md"))(t)
	presets, names := map[string]string{}, strings.Fields(established)
	for _, s := range settings() {
		presets[s.name] = s.preset
	}
	_, section, _ := strings.Cut(string(text), "\n## Settings\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `([^`]*)` \\| `([^`]*)` \\|").FindAllStringSubmatch(section, -1)
	if len(rows) < 3 {
		t.Fatalf("%d other defaults", len(rows))
	}
	for _, row := range rows {
		if row[3] != presets[row[1]] || row[2] == row[3] || !slices.Contains(names, row[1]) {
			t.Errorf("%s: %q there and %q here; it is %q", row[1], row[2], row[3], presets[row[1]])
		}
	}
	for _, name := range regexp.MustCompile("`([A-Z][A-Z0-9_]+)`").FindAllStringSubmatch(section, -1) {
		if _, ok := presets[name[1]]; !ok {
			t.Errorf("there is no setting %s", name[1])
		}
	}
	for _, count := range []string{fmt.Sprintf("\nAll %d settings ", len(names)), fmt.Sprintf("\n%d settings have no effect", len(idle()))} {
		if !strings.Contains(section, count) {
			t.Errorf("no %q", count)
		}
	}
}

// document renders every setting, by section. A setting that several parts of the
// program read is shown once.
func document(t *testing.T) string {
	t.Helper()
	comments := map[reflect.Type]map[string]string{}
	seen := map[string]bool{}
	var b strings.Builder
	b.WriteString("# Settings\n\nGenerated from the source; `make generate` renews it. Settings come from the environment and from the `.env` file in the\n" +
		"working directory, or from the file that `LOCKSTEP_ENV_FILE` names instead; the environment takes precedence. A bare number in a duration is milliseconds; `1.5s` and `2m` work, too. Lists are\n" +
		"separated by commas or written as JSON arrays. `lockstep config` prints every setting with the value it has, secrets masked; `lockstep config check` says what is wrong with them, and which names may be misspelt.\n\n" +
		"`lockstep serve` reads the settings again when it gets SIGHUP, or `POST /reload` on `ADMIN_ADDRESS`. Settings marked **Reload.** take effect at once. The log, and the answer of the call, name the settings that\n" +
		"have changed but need a new start. If a value is wrong, nothing changes. The environment of a running process cannot change, and it takes precedence: write a setting that you want to reload into the file.\n")
	section := ""
	rows, all := map[string]string{}, &strings.Builder{}
	for _, s := range settings() {
		if seen[s.name] {
			continue
		}
		seen[s.name] = true
		if s.section != section {
			section = s.section
			fmt.Fprintf(all, "\n## %s\n\n| Setting | Default | Meaning |\n|---|---|---|\n", section)
		}
		if comments[s.owner] == nil {
			comments[s.owner] = fieldComments(t, s.owner)
		}
		text := comments[s.owner][s.field]
		if text == "" {
			t.Errorf("%s (%s.%s) has no comment", s.name, s.owner, s.field)
		}
		preset := "–"
		if s.preset != "" {
			preset = "`" + s.preset + "`"
		}
		if s.secret && !strings.HasSuffix(text, "Secret.") {
			text += " Secret."
		}
		if s.reload {
			text += " **Reload.**"
		}
		rows[s.name] = fmt.Sprintf("| `%s` | %s | %s |\n", s.name, strings.ReplaceAll(preset, ",", ", "), strings.ReplaceAll(text, "|", "\\|"))
		all.WriteString(rows[s.name])
	}
	b.WriteString("\n## The twelve that matter\n\nThe rest is for special cases: their defaults suit a relay that serves the public and a fleet behind a load balancer.\n\n| Setting | Default | Meaning |\n|---|---|---|\n")
	for _, name := range firstSettings {
		if rows[name] == "" {
			t.Errorf("there is no setting %s", name)
		}
		b.WriteString(rows[name])
	}
	b.WriteString(all.String())
	b.WriteString("\n## Without effect\n\nThe relay accepts these settings of hiero-json-rpc-relay, and they have no effect. At its start the log names those that are set.\n\n| Setting | Why |\n|---|---|\n")
	for _, s := range idle() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", s.name, s.why)
	}
	return b.String()
}

// fieldComments reads the comments of a struct's fields from its source.
func fieldComments(t *testing.T, owner reflect.Type) map[string]string {
	t.Helper()
	dir := filepath.Join("..", strings.TrimPrefix(owner.PkgPath(), "lockstep/"))
	files := must.Get(filepath.Glob(filepath.Join(dir, "*.go")))(t)
	found := map[string]string{}
	for _, file := range files {
		parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments))(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != owner.Name() {
				return true
			}
			if fields, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range fields.Fields.List {
					text := field.Doc.Text()
					if text == "" {
						text = field.Comment.Text()
					}
					for _, name := range field.Names {
						found[name.Name] = clean(name.Name, text)
					}
				}
			}
			return false
		})
	}
	return found
}

// clean makes a comment one line and drops a leading "Name is" or "Name are", and the name before a verb: "Name says". The name of a
// field may also be the first word of what it means: "File with a key" stays.
func clean(name, text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, lead := range []string{name + " is ", name + " are ", name + " "} {
		rest, ok := strings.CutPrefix(text, lead)
		if verb, _, _ := strings.Cut(rest, " "); ok && (lead != name+" " || strings.HasSuffix(verb, "s")) {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return text
}
