package lockstep_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pkg is what `go list -json` tells of a package of ours.
type pkg struct {
	ImportPath   string
	Dir          string
	Imports      []string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
}

func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, "lockstep/") }

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Imports,GoFiles,TestGoFiles,XTestGoFiles", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// room is one row of the floor table in ARCHITECTURE.md.
type room struct {
	floor   int
	sealed  bool // its packages do not import each other
	tower   bool // stands aside: floor 0 only, and only the top imports it
	pattern *regexp.Regexp
}

var floorRow = regexp.MustCompile(`^\| (\d|tower) \| ([^|]+) \| ([^|]+) \|`)

// rooms reads the floor table, so that the document and the code cannot disagree.
func rooms(t *testing.T) []room {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	var table []room
	for line := range strings.Lines(string(text)) {
		m := floorRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		var names []string
		for name := range strings.FieldsSeq(m[2]) {
			names = append(names, strings.ReplaceAll(regexp.QuoteMeta(strings.Trim(name, "`")), `/\*`, `(/.*)?`))
		}
		r := room{
			tower:   m[1] == "tower",
			sealed:  strings.Contains(m[3], "never each other"),
			pattern: regexp.MustCompile(`^(` + strings.Join(names, "|") + `)$`),
		}
		if !r.tower {
			r.floor = int(m[1][0] - '0')
		}
		table = append(table, r)
	}
	if len(table) < 6 {
		t.Fatalf("ARCHITECTURE.md has a floor table of %d rows", len(table))
	}
	return table
}

func find(table []room, name string) (room, bool) {
	for _, r := range table {
		if r.pattern.MatchString(name) {
			return r, true
		}
	}
	return room{}, false
}

func TestFloors(t *testing.T) {
	table := rooms(t)
	for _, p := range packages(t) {
		if p.ImportPath == "lockstep" {
			continue
		}
		from, ok := find(table, p.name())
		if !ok {
			t.Errorf("%s has no floor in ARCHITECTURE.md", p.name())
			continue
		}
		for _, imported := range p.Imports {
			name, ours := strings.CutPrefix(imported, "lockstep/")
			to, known := find(table, name)
			if !ours || !known {
				continue
			}
			if reason := forbidden(from, to, p.name(), name); reason != "" {
				t.Errorf("%s imports %s: %s", p.name(), name, reason)
			}
		}
	}
}

// forbidden tells why a package must not import another, or "".
func forbidden(from, to room, importer, imported string) string {
	sameTree := strings.Split(importer, "/")[0] == strings.Split(imported, "/")[0]
	switch {
	case from.tower && !sameTree && (to.tower || to.floor > 0):
		return "the tower imports floor 0 only"
	case from.tower || sameTree:
		return ""
	case to.tower && from.floor < 5:
		return "only the top floor imports the tower"
	case to.tower:
		return ""
	case to.floor > from.floor:
		return "a lower floor must not know a higher one"
	case to.floor == from.floor && from.sealed:
		return "rooms of this floor never import each other"
	default:
		return ""
	}
}

// thirdParty lists modules that only some packages may import, each with a reason.
var thirdParty = []struct{ module, allowed, reason string }{
	{"google.golang.org/grpc", `^(consensus|devnet(/.*)?)$`, "consensus is the only door to a consensus node"},
	{"github.com/gorilla/websocket", `^(rpc|bench)$`, "rpc is the only WebSocket server, bench a client"},
	{"github.com/redis/go-redis/v9", `^(internal/redis.*|lock(/.*)?|cache|limit|txpool|txtrace|app|bench/.*)$`, "only stores talk to Redis, and what measures them"},
	{"github.com/caarlos0/env/v11", `^config$`, "settings are read in one place"},
	{"github.com/ethereum/go-ethereum/core/vm", `^(evm|devnet/.*)$`, "evm is the only place where the relay executes anything itself"},
}

func TestThirdPartyImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, rule := range thirdParty {
			if regexp.MustCompile(rule.allowed).MatchString(p.name()) {
				continue
			}
			for _, imported := range p.Imports {
				if imported == rule.module || strings.HasPrefix(imported, rule.module+"/") {
					t.Errorf("%s imports %s: %s", p.name(), imported, rule.reason)
				}
			}
		}
	}
}

func TestEveryPackageHasADocComment(t *testing.T) {
	for _, p := range packages(t) {
		documented := len(p.GoFiles) == 0 // a folder of tests only
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			documented = documented || len(parsed.Doc.Text()) > 60
		}
		if !documented {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// maxLines is where a file is likely to hold two ideas.
const maxLines = 500

func TestTreeShape(t *testing.T) {
	unwanted := regexp.MustCompile(`^(util|utils|common|types|pkg|services|helpers)$`)
	for _, p := range packages(t) {
		if unwanted.MatchString(path.Base(p.ImportPath)) {
			t.Errorf("%s: the name says nothing", p.ImportPath)
		}
		if strings.Count(p.name(), "/") > 1 {
			t.Errorf("%s is deeper than two folders", p.ImportPath)
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if lines := bytes.Count(text, []byte("\n")); lines > maxLines && !strings.HasSuffix(file, ".pb.go") {
				t.Errorf("%s/%s has %d lines; over %d it is two files", p.name(), file, lines, maxLines)
			}
		}
	}
}
