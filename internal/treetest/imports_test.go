package treetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// root is the folder of the project.
const root = "../.."

// pkg is what `go list -json` tells of a package of ours.
type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, "lockstep/") }

func packages(t *testing.T) []pkg {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Imports,GoFiles", "./...")
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) { // as for a cycle of imports
			t.Fatalf("go list: %v: %s", err, failed.Stderr)
		}
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

// room is one entry of the floor table in ARCHITECTURE.md: a package, or a package with all below it.
type room struct {
	entry   string // as written there
	floor   int
	sealed  bool // the rooms of its row do not import each other
	tower   bool // stands aside: floor 0 only, and only the top imports it
	pattern *regexp.Regexp
}

var floorRow = regexp.MustCompile(`^\| (\d|tower) \| ([^|]+) \| ([^|]+) \|`)

// rooms reads the floor table, so that the document and the code cannot disagree.
func rooms(t *testing.T) []room {
	t.Helper()
	text := must.Get(os.ReadFile(root + "/ARCHITECTURE.md"))(t)
	var table []room
	for line := range strings.Lines(string(text)) {
		m := floorRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for entry := range strings.FieldsSeq(m[2]) {
			entry = strings.Trim(entry, "`")
			r := room{
				entry:   entry,
				tower:   m[1] == "tower",
				sealed:  strings.Contains(m[3], "never each other"),
				pattern: regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(entry), `/\*`, `(/.*)?`) + `$`),
			}
			if !r.tower {
				r.floor = int(m[1][0] - '0')
			}
			table = append(table, r)
		}
	}
	if len(table) < 20 {
		t.Fatalf("ARCHITECTURE.md has a floor table of %d rooms", len(table))
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
			if reason := forbidden(from, to); reason != "" {
				t.Errorf("%s imports %s: %s", p.name(), name, reason)
			}
		}
	}
}

// TestEveryRoomExists keeps rooms that are gone out of the table.
func TestEveryRoomExists(t *testing.T) {
	list := packages(t)
	for _, r := range rooms(t) {
		if !slices.ContainsFunc(list, func(p pkg) bool { return r.pattern.MatchString(p.name()) }) {
			t.Errorf("ARCHITECTURE.md gives a floor to %s, which does not exist", r.entry)
		}
	}
}

// forbidden tells why a package of one room must not import one of another, or "".
func forbidden(from, to room) string {
	switch {
	case from.entry == to.entry, from.tower && to.tower:
		return ""
	case from.tower && to.floor > 0:
		return "the tower imports floor 0 only"
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

var ledgerRow = regexp.MustCompile(`^\| (` + "(?:`[a-z]+` ?)+" + `) \| [^|]+ \| ([^|]*)\|`)

// Packages of the devnet's ledger import of each other what ARCHITECTURE.md says, no more and no less. The ledger itself may import all.
func TestLedgerOfTheDevnet(t *testing.T) {
	const ledger = "devnet/ledger/"
	may := map[string][]string{}
	for line := range strings.Lines(read(t, "ARCHITECTURE.md")) {
		if m := ledgerRow.FindStringSubmatch(line); m != nil {
			for name := range strings.FieldsSeq(m[1]) {
				may[strings.Trim(name, "`")] = strings.Fields(strings.ReplaceAll(m[2], "`", ""))
			}
		}
	}
	for _, p := range packages(t) {
		name, below := strings.CutPrefix(p.name(), ledger)
		if !below {
			continue
		}
		listed, known := may[name]
		delete(may, name)
		var imported []string
		for _, path := range p.Imports {
			if other, ok := strings.CutPrefix(path, "lockstep/"+ledger); ok {
				imported = append(imported, other)
			}
		}
		slices.Sort(listed)
		if !known || !slices.Equal(listed, imported) {
			t.Errorf("%s imports %q of the ledger, ARCHITECTURE.md lists %q", name, imported, listed)
		}
	}
	for name := range may {
		t.Errorf("ARCHITECTURE.md lists the package %s of the ledger, which does not exist", name)
	}
}

// thirdParty lists modules, and rooms of ours, that only some packages may import, each with a reason.
var thirdParty = []struct{ module, allowed, reason string }{
	{"google.golang.org/grpc", `^(consensus|devnet(/.*)?)$`, "consensus is the only door to a consensus node"},
	{"github.com/gorilla/websocket", `^(rpc|bench(/attack)?)$`, "rpc is the only WebSocket server, bench and its attacks are clients"},
	{"github.com/redis/go-redis/v9", `^(internal/redis.*|lock(/.*)?|internal/relay/(cache|limit|pending|lifecycle)|watch/sinks|app|bench/.*)$`, "only stores and sinks talk to Redis, and what measures them"},
	{"go.opentelemetry.io/otel", `^internal/relay/telemetry$`, "all others ask telemetry for spans"},
	{"github.com/yuin/gopher-lua", `^lock/locksim$`, "only the simulated Redis runs Lua"},
	{"github.com/anishathalye/porcupine", `^lock/locksim$`, "only the simulation judges histories"},
	{"github.com/caarlos0/env/v11", `^(config|lock|txmgr)$`, "settings are read in one place; lock and txmgr only read the defaults of their own"},
	{"github.com/aws/aws-sdk-go-v2", `^txmgr/signers$`, "only signers know key services"},
	{"cloud.google.com/go/kms", `^txmgr/signers$`, "only signers know key services"},
	{"github.com/danielgtaylor/huma/v2", `^(txmgr/api|watch/api|console/rest)$`, "they alone know the form of REST"},
	{"modernc.org/sqlite", `^internal/ledger$`, "the ledger is the only door to a database"},
	{"github.com/jackc/pgx/v5", `^internal/(ledger|pgtest)$`, "the ledger is the only door to a database"},
	{"github.com/nats-io/nats.go", `^watch/sinks$`, "only sinks know message brokers"},
	{"cloud.google.com/go/pubsub/v2", `^watch/sinks$`, "only sinks know message brokers"},
	{"github.com/pressly/goose/v3", `^internal/ledger$`, "the ledger applies every migration"},
	{"lockstep/mirror/fetch", `^mirror$`, "mirror is the only door to a mirror node"},
	{"lockstep/internal/relay", `^(app|cmd/.*|config|console|consensus|ethapi|internal/relay/.*|lock|mirror(/.*)?|rpc|submit)$`, "these rooms are the relay's own"},
	{"lockstep/internal/relay/evm", `^ethapi$`, "only simulations run in this process"},
	{"lockstep/lock", `^(submit|app|config|console|cmd/lockstep|lock/.*|bench/.*)$`, "submit is the one user of the lock, which fails open, and the console shows it; what must fail closed stands on internal/lease"},
	{"lockstep/console", `^(app|console(/rest)?|txmgr/(api|service)|watch/api|cmd/lockstep(/show)?)$`, "the page is what listeners show; nothing else knows it"},
	{"lockstep/txmgr", `^(txmgr(/.*)?|app|config|watch/sinks|cmd/lockstep|bench/.*)$`, "others ask a manager by its client, and nobody shows its state but itself"},
	{"lockstep/submit", `^(ethapi|app|config)$`, "raw transactions of clients come through ethapi alone"},
	{"lockstep/internal/lease", `^(txmgr|watch)(/.*)?$`, "owners of the ledger's things are in the manager and the watchers"},
	{"github.com/ethereum/go-ethereum/rpc", `^(internal/ethrpc|bench|e2e/harness)$`, "ethrpc is the one client of Ethereum endpoints, and knows what their answers mean"},
	{"github.com/ethereum/go-ethereum/core/vm", `^(internal/relay|devnet/ledger)/evm$`, "evm is the only place where the relay executes anything itself, and the devnet has one, too"},
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
