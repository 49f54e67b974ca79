package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

const workerd = "node_modules/@cloudflare/workerd-linux-64/bin/workerd"

// isolates is how many copies of the worker run at once, each in an isolate of its own.
const isolates = 8

// edgeWorld is a chain with a manager, and isolates of examples/edge-worker that know it.
type edgeWorld struct {
	*testing.T
	manager string
	ports   []int
}

// startManager runs a chain with a manager, and returns the manager's URL.
func startManager(t *testing.T) string {
	t.Helper()
	var ready struct{ TX string }
	start(t, nil, "dev", "--json", "--tx", "--tx-address", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0").ReadReady(&ready)
	if ready.TX == "" {
		t.Fatal("dev --tx names no manager")
	}
	return ready.TX
}

// runWorkers starts isolates of the worker in workerd and returns their ports.
func runWorkers(t *testing.T, manager, chain string) []int {
	t.Helper()
	dir := exampleWith(t, "edge-worker")
	var services, sockets string
	for i := range isolates {
		services += fmt.Sprintf("(name = \"edge-%d\", worker = .edge),\n", i)
		sockets += fmt.Sprintf("(name = \"http-%d\", address = \"127.0.0.1:0\", http = (), service = \"edge-%d\"),\n", i, i)
	}
	config := fmt.Sprintf(`using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
%s(name = "manager", external = (address = %q, http = ()))],
  sockets = [
%s]);
const edge :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.js"), (name = "lockstep-txm", esModule = embed "node_modules/lockstep-txm/dist/index.js")],
  compatibilityDate = "2026-01-01",
  bindings = [(name = "MANAGER", service = "manager"), (name = "CHAIN", text = %q), (name = "KEY", text = "")]);
`, services, manager, sockets, chain)
	must.Do(t, os.WriteFile(filepath.Join(dir, "config.capnp"), []byte(config), 0o600))
	ports, _ := serveWorkers(t, dir, isolates)
	return ports
}

// exampleWith is a copy of an example with the client that it imports.
func exampleWith(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS(filepath.Join("../examples", name))))
	compile := exec.CommandContext(t.Context(), "node", "node_modules/typescript/bin/tsc", "../clients/typescript/src/index.ts", "--ignoreConfig",
		"--outDir", filepath.Join(dir, "node_modules/lockstep-txm/dist"), "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom,dom.iterable", "--strict", "--types", "")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("tsc: %v\n%s", err, out)
	}
	return dir
}

// serveWorkers starts workerd in a folder with a config.capnp, and returns the ports of its sockets and what ends it at once.
func serveWorkers(t *testing.T, dir string, sockets int, args ...string) (ports []int, kill func()) {
	t.Helper()
	program := must.Get(filepath.Abs(workerd))(t)
	control, writer := must.Get2(os.Pipe())(t)
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, append([]string{"serve", filepath.Join(dir, "config.capnp"), "--control-fd=3"}, args...)...)
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{writer}, &log, &log
	must.Do(t, cmd.Start())
	writer.Close()
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
		control.Close()
	})
	t.Cleanup(func() {
		kill()
		if t.Failed() {
			t.Logf("workerd: %s", log.String())
		}
	})
	for lines := bufio.NewScanner(control); len(ports) < sockets; {
		if !lines.Scan() {
			t.Fatalf("workerd ended before it listened: %v\n%s", lines.Err(), log.String())
		}
		var event struct {
			Event string
			Port  int
		}
		must.Do(t, json.Unmarshal(lines.Bytes(), &event))
		if event.Event == "listen" {
			ports = append(ports, event.Port)
		}
	}
	return ports, kill
}

type edgeRecord struct {
	Status, TxHash string
	Outcome        struct {
		ID, Status  string
		BlockNumber uint64
	}
}

// act is what an isolate is asked for.
func act(account, action string, value int) string {
	return fmt.Sprintf(`{"account":%q,"key":"main","action":%q,"to":"0x05FbA803Be258049A27B820088bab1cAD2058871","value":"%d0000000000"}`, account, action, value)
}

// ask asks one isolate for an action.
func (w *edgeWorld) ask(isolate int, body string) (int, edgeRecord) {
	status, r, err := w.post(isolate, body)
	if err != nil {
		w.Error(err)
	}
	return status, r
}

// post is ask where no answer is no failure of the test.
func (w *edgeWorld) post(isolate int, body string) (status int, r edgeRecord, err error) {
	request, err := http.NewRequestWithContext(w.Context(), http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/act", w.ports[isolate]), strings.NewReader(body))
	if err != nil {
		return 0, r, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, r, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return response.StatusCode, r, err // a problem
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return response.StatusCode, r, fmt.Errorf("%s: %s: %w", response.Status, content, err)
	}
	return response.StatusCode, r, nil
}

// Many isolates ask for the same actions at once. Each action is executed once and has one
// result, whoever asks; the actions of one account are executed in the order in which the
// manager accepted them, all by one signer.
func TestEdgeWorkers(t *testing.T) {
	manager := startManager(t)
	w := &edgeWorld{T: t, manager: manager, ports: runWorkers(t, strings.TrimPrefix(manager, "http://"), "298")}
	accounts, actions := []string{"alice", "bob", "carol"}, 6
	results := map[string]map[string]int{} // action → hash → how many isolates were told
	var mu sync.Mutex
	var all sync.WaitGroup
	for isolate := range isolates {
		for _, account := range accounts {
			for n := range actions {
				all.Go(func() {
					status, r := w.ask(isolate, act(account, fmt.Sprint("act-", n), n+1))
					mu.Lock()
					defer mu.Unlock()
					if status != http.StatusOK || r.Status != "done" || r.TxHash == "" {
						t.Errorf("%s %d at isolate %d: %d %+v", account, n, isolate, status, r)
					}
					name := fmt.Sprint(account, n)
					if results[name] == nil {
						results[name] = map[string]int{}
					}
					results[name][r.TxHash]++
				})
			}
		}
	}
	all.Wait()
	if len(results) != len(accounts)*actions {
		t.Errorf("%d actions have a result", len(results))
	}
	for name, hashes := range results {
		if len(hashes) != 1 {
			t.Errorf("%s has results %v", name, hashes)
		}
	}
	w.ordered(accounts, actions)
	// Another intent under a used key is refused, and the isolate passes that on.
	if status, _ := w.ask(0, act("alice", "act-0", 77)); status != http.StatusUnprocessableEntity {
		t.Errorf("another intent under the key: %d", status)
	}
}

// TestEdgeWorkersWithObjects has one Durable Object for each account in front of the manager. workerd is killed while it works, and everything is
// asked for again: each action has the result that somebody was told before, and is executed once, in one order.
func TestEdgeWorkersWithObjects(t *testing.T) {
	manager := startManager(t)
	dir := exampleWith(t, "edge-object")
	config := filepath.Join(dir, "config.capnp")
	text := must.Get(os.ReadFile(config))(t)
	here := strings.NewReplacer("127.0.0.1:7550", strings.TrimPrefix(manager, "http://"), "127.0.0.1:8780", "127.0.0.1:0").Replace(string(text))
	must.Do(t, os.WriteFile(config, []byte(here), 0o600))
	objects := filepath.Join(dir, "objects")
	must.Do(t, os.Mkdir(objects, 0o700))
	w := &edgeWorld{T: t, manager: manager}
	accounts, actions := []string{"alice", "bob"}, 8
	told := map[string]string{} // action → hash
	// askAll asks for everything twice at once. Until workerd is to die, each answer has to be the result.
	askAll := func(dies bool) {
		var kill func()
		w.ports, kill = serveWorkers(t, dir, 1, "--directory-path=objects="+objects)
		defer kill()
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 2 {
			for _, account := range accounts {
				for n := range actions {
					all.Go(func() {
						status, r, err := w.post(0, act(account, fmt.Sprint("act-", n), n+1))
						mu.Lock()
						defer mu.Unlock()
						name := fmt.Sprint(account, n)
						switch {
						case dies && (err != nil || status != http.StatusOK):
						case err != nil || status != http.StatusOK || r.Status != "done" || r.TxHash == "":
							t.Errorf("%s: %d %+v %v", name, status, r, err)
						case told[name] != "" && told[name] != r.TxHash:
							t.Errorf("%s was %s and is %s", name, told[name], r.TxHash)
						default:
							told[name] = r.TxHash
						}
						if dies && len(told) == 3 {
							kill()
						}
					})
				}
			}
		}
		all.Wait()
		if dies {
			return
		}
		if status, _ := w.ask(0, act("alice", "act-0", 77)); status != http.StatusUnprocessableEntity {
			t.Errorf("another intent under the key: %d", status)
		}
	}
	askAll(true)
	if before := len(told); before < 3 || before == len(accounts)*actions {
		t.Errorf("workerd died after %d results", before)
	}
	askAll(false)
	w.ordered(accounts, actions)
	askAll(false) // from what is kept
}

// ordered checks the transactions of each account by the manager's list, which is newest
// first in the order of acceptance.
func (w *edgeWorld) ordered(accounts []string, actions int) {
	w.Helper()
	type transaction struct {
		ID, OrderKey, Signer, Status string
		Nonce                        uint64
		Receipt                      struct{ BlockNumber uint64 }
	}
	var list struct{ Transactions []transaction }
	harness.Until(w.T, harness.StartLimit, "the list is complete", func() bool {
		request, _ := http.NewRequestWithContext(w.Context(), http.MethodGet, w.manager+"/v1/transactions?limit=500", nil)
		response := must.Get(http.DefaultClient.Do(request))(w)
		defer response.Body.Close()
		return json.NewDecoder(response.Body).Decode(&list) == nil && len(list.Transactions) >= len(accounts)*actions
	})
	slices.Reverse(list.Transactions)
	if len(list.Transactions) != len(accounts)*actions {
		w.Errorf("the manager has %d transactions", len(list.Transactions))
	}
	of := map[string][]transaction{}
	for _, tx := range list.Transactions {
		of[tx.OrderKey] = append(of[tx.OrderKey], tx)
	}
	for _, account := range accounts {
		line := of[account+":main"]
		if len(line) != actions {
			w.Errorf("%s has %d transactions", account, len(line))
		}
		if !slices.IsSortedFunc(line, func(a, b transaction) int { return cmp.Compare(a.Receipt.BlockNumber, b.Receipt.BlockNumber) }) {
			w.Errorf("%s: executed in another order than accepted: %+v", account, line)
		}
	}
}
