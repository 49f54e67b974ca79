package ui_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

// api asks a manager or a watcher as programs do, and decodes what it answers.
func api(t *testing.T, method, url, body string, into any, headers ...string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader([]byte(body))))(t)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer := must.Get(http.DefaultClient.Do(request))(t)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, url, answer.StatusCode, text, err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// revertingCode makes a contract that answers every call with the error NoSuchOrder().
const revertingCode = "0x6f631e4c198360e01b60005260046000fd60005260106010f3"

type intent struct {
	ID, Status, Hash, Signer string
	Final                    bool
	Attempts                 []struct{ SentAt string }
}

// final hands an intent over and waits for its fate.
func final(t *testing.T, base, key, body string) (i intent) {
	t.Helper()
	api(t, "POST", base+"/v1/transactions?wait=mined&timeout=60s", body, &i, "Idempotency-Key", key)
	harness.Until(t, harness.StartLimit, "the intent "+key+" has a fate", func() bool {
		api(t, "GET", base+"/v1/transactions/"+i.ID, "", &i)
		return i.Final
	})
	return i
}

// cleared empties the field that finds things.
var cleared = chromedp.Evaluate(`document.getElementById('wanted').value = ''`, nil)

// TestManager walks through the manager's views after intents had different fates, stops and starts it by the page, and
// finds the way between the manager's page and the relay's.
func TestManager(t *testing.T) {
	var ready struct{ RPC, UI, TX string }
	dev := harness.Command{
		Name: "dev", Settings: harness.Patient(),
		Args: []string{"dev", "--json", "--tx", "--tx-address", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0", "--ui", "127.0.0.1:0"},
	}.Start(t)
	dev.ReadReady(&ready)
	const receiver = "0x05FbA803Be258049A27B820088bab1cAD2058871"
	var policy struct{ ID string }
	api(t, "POST", ready.TX+"/v1/policies", `{"rules":{"maxGas":15000000,"tenantDailyGas":"900000000000000000000"}}`, &policy)
	paid := final(t, ready.TX, "order-17", `{"chain":"298","to":"`+receiver+`","value":"10000000000","subject":"order-17"}`)
	made := final(t, ready.TX, "deploy", `{"chain":"298","data":"`+revertingCode+`","gas":300000}`)
	var contract struct {
		Receipt struct{ ContractAddress string }
	}
	api(t, "GET", ready.TX+"/v1/transactions/"+made.ID, "", &contract)
	failed := final(t, ready.TX, "doomed", `{"chain":"298","to":"`+contract.Receipt.ContractAddress+`","data":"0x12345678","gas":100000,"simulate":"off","abi":["error NoSuchOrder()"]}`)
	if paid.Status != "confirmed" || made.Status != "confirmed" || failed.Status != "reverted" {
		t.Fatalf("%+v %+v %+v", paid, made, failed)
	}

	b := open(t, ready.TX+"/ui/")
	b.do("the page", chromedp.Navigate(b.base))
	b.until("transaction manager", "Signers", "ready", "dev/", ", term 1", "default")
	b.accessible("manager-signers")

	b.view("intents")
	b.until("confirmed", "reverted", "order-17", "doomed")
	b.accessible("manager-intents")
	b.do("a filter by status", chromedp.SetValue("#status-filter", "reverted", chromedp.ByQuery), chromedp.Evaluate(`document.getElementById('status-filter').dispatchEvent(new Event('change')); 0`, nil))
	harness.Until(t, harness.StartLimit, "only the intent that failed is left", func() bool {
		text := b.text()
		return strings.Contains(text, "doomed") && !strings.Contains(text, "order-17")
	})

	b.view("intent/" + failed.ID)
	b.until("Fate", "executed and failed, and the block is final", "never changes again", "NoSuchOrder()", "Attempts", failed.Hash, "mined", "Timeline", "accepted", "broadcast", "longest")
	b.accessible("manager-intent")
	for what, name := range map[string]string{"idempotency key": "order-17", "hash": paid.Hash, "id": paid.ID} {
		b.view("signers")
		b.do("a search by "+what, cleared, chromedp.SendKeys("#wanted", name+kb.Enter, chromedp.ByQuery))
		b.until("Fate", paid.ID, "executed, and the block is final", "order-17")
	}
	b.view("found/nobody-knows-this")
	b.until("No intent has the id, the idempotency key or the hash nobody-knows-this.")
	b.accessible("manager-found")

	b.view("policies")
	b.until("No switch is on", "maximum gas", "15,000,000", "Budgets", "Used on")
	b.accessible("manager-policies")
	b.do("everything is stopped", chromedp.Evaluate(`window.confirm = () => true; 0`, nil), chromedp.SendKeys("#field-scope", "all", chromedp.ByQuery), chromedp.SendKeys("#field-reason", "a drill"+kb.Enter, chromedp.ByQuery))
	b.until("Switches that are on", "a drill")
	var switches struct{ Switches map[string]string }
	if api(t, "GET", ready.TX+"/v1/kill-switch", "", &switches); switches.Switches["all"] != "a drill" {
		t.Errorf("the page has stopped %v", switches)
	}
	b.view("signers")
	b.until("The kill switch is on: all")
	b.view("policies")
	b.do("it goes on", chromedp.Click(`//button[text()="Let it go on"]`))
	b.until("No switch is on")

	// An intent by the form, in the chain's own unit.
	b.view("send")
	b.until("Amount", "Function")
	b.accessible("manager-send")
	b.do("an amount that is none", chromedp.SendKeys("#field-to", receiver, chromedp.ByQuery), chromedp.SendKeys("#field-value", "half"+kb.Enter, chromedp.ByQuery))
	b.until("half is no amount")
	b.do("half an HBAR", chromedp.SetValue("#field-value", "0.5", chromedp.ByQuery), chromedp.Click(`//button[text()="Send it"]`))
	b.until("Fate", "executed, and the block is final", "0.5 HBAR", " gwei")

	// A signer that is held up has the button that mends it.
	var signers struct {
		Signers []struct{ Chain, Address, Balance, Unit string }
	}
	api(t, "GET", ready.TX+"/v1/signers", "", &signers)
	held := signers.Signers[0]
	api(t, "POST", ready.TX+"/v1/signers/"+held.Chain+"/"+held.Address+"/pause", `{"reason":"a look at the key"}`, nil)
	b.view("signers")
	b.until("What holds signers up", "paused: a look at the key", " HBAR")
	b.accessible("manager-held")
	b.do("it is used again", chromedp.Click(`//button[text()="Resume"]`))
	harness.Until(t, harness.StartLimit, "nothing holds the signer up", func() bool { return !strings.Contains(b.text(), "What holds signers up") })
	var points string
	b.do("the backlog's line", chromedp.Evaluate(`document.querySelector('td.spark').dataset.points`, &points))
	if points == "" || points == "0" {
		t.Errorf("the backlog has %q points", points)
	}

	// What happens shows without asking again.
	b.view("intents")
	b.until("order-17")
	final(t, ready.TX, "while-you-watch", `{"chain":"298","to":"`+receiver+`","value":"10000000000"}`)
	b.until("while-you-watch")

	// The pages lead to each other.
	for from, to := range map[string]string{ready.UI: ready.TX + "/ui/", ready.TX + "/ui/": ready.UI} {
		tab := b
		if from == ready.UI {
			tab = open(t, from)
			tab.do("the relay's page", chromedp.Navigate(from))
			tab.until("Newest blocks")
		}
		var links []string
		tab.do("the links", chromedp.Evaluate(`[...document.querySelectorAll('nav a')].map(a => a.href)`, &links))
		if !strings.Contains(strings.Join(links, " ")+" ", to+" ") {
			t.Errorf("from %s no link leads to %s: %v", from, to, links)
		}
	}

	// With a key, the page asks for one, and shows a reader no button.
	var admin, reader struct{ Token string }
	api(t, "POST", ready.TX+"/v1/api-keys", `{"role":"admin"}`, &admin)
	api(t, "POST", ready.TX+"/v1/api-keys", `{"role":"read"}`, &reader, "Authorization", "Bearer "+admin.Token)
	b = open(t, ready.TX+"/ui/")
	b.do("the page", chromedp.Navigate(b.base+"#/policies"))
	b.until("an access key of the transaction manager")
	b.accessible("manager-token")
	b.do("a wrong key", chromedp.SendKeys("#field-token", "lsk_wrong"+kb.Enter, chromedp.ByQuery))
	b.until("That is not the token.")
	b.do("a reader's key", chromedp.SendKeys("#field-token", reader.Token+kb.Enter, chromedp.ByQuery))
	b.until("No switch is on", "Budgets")
	if text := b.text(); strings.Contains(text, "Stop it") {
		t.Errorf("a reader is shown what only an administrator can do:\n%s", text)
	}
	b.view("send")
	b.until("Your key may look, and not send.")
}

// mutedChain starts anvil without mining, and returns how to ask it.
func mutedChain(t *testing.T) (url string, call func(method string, params ...any)) {
	t.Helper()
	_, url = harness.Anvil(t, 0, "--no-mining")
	return url, func(method string, params ...any) {
		t.Helper()
		body := must.Get(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))(t)
		var answer struct{ Error json.RawMessage }
		if api(t, "POST", url, string(body), &answer); answer.Error != nil {
			t.Fatalf("%s: %s", method, answer.Error)
		}
	}
}

// TestManagerHelps presses the buttons that mend what holds a signer up: it goes on after somebody else's transactions, an intent at the head of its
// line is cancelled, and the treasury fills it up.
func TestManagerHelps(t *testing.T) {
	chain, call := mutedChain(t)
	const (
		signer, treasury = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
		keys             = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80,59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
	)
	call("eth_sendTransaction", map[string]any{"from": signer, "to": signer, "nonce": "0x0", "gas": "0x5208", "gasPrice": "0x2540be400"}) // somebody else's
	manager := harness.Command{
		Name: "manager", Args: []string{"txm"}, Settings: []string{
			"DATABASE_URL=memory:", "TXM_CHAINS=31337=" + chain, "RELAYER_PRIVATE_KEYS=" + keys, "TXM_ADDRESS=127.0.0.1:0", "TXM_LOOPBACK_TOKEN=false", "INSTANCE_ID=one", "PRETTY_LOGS_ENABLED=false",
			"TXM_TREASURY=" + treasury, "TXM_TOP_UP_BELOW=1", "TXM_TOP_UP_TO=12000000000000000000000",
		},
	}.Start(t).URL("transaction manager is ready")
	type lane struct {
		Address, Halted, PassedOver, Balance string
		NextNonce                            uint64
	}
	of := func(address string) (found lane) {
		var list struct{ Signers []lane }
		api(t, "GET", manager+"/v1/signers", "", &list)
		for _, l := range list.Signers {
			if strings.EqualFold(l.Address, address) {
				found = l
			}
		}
		return found
	}
	harness.Until(t, harness.StartLimit, "one signer is halted, the other one works", func() bool {
		return of(signer).Halted != "" && of(treasury).PassedOver == "" && of(treasury).Balance != ""
	})

	b := open(t, manager+"/ui/")
	b.do("the page", chromedp.Navigate(b.base))
	b.until("What holds signers up", "halted: ", "Go on after others\u2019 transactions")
	b.do("it goes on after them", chromedp.Evaluate(`window.confirm = () => true; 0`, nil), chromedp.Click("//button[text()=\"Go on after others\u2019 transactions\"]"))
	harness.Until(t, harness.StartLimit, "the signer goes on", func() bool { return of(signer).Halted == "" && of(signer).PassedOver == "" })
	call("anvil_mine", "0x1")

	var sent intent
	api(t, "POST", manager+"/v1/transactions?wait=broadcast&timeout=60s", `{"chain":"31337","to":"0x05FbA803Be258049A27B820088bab1cAD2058871","value":"1","pin":"`+signer+`"}`, &sent)
	b.do("two minutes pass", chromedp.Evaluate(`{ const now = Date.now; Date.now = () => now() + 120000; } 0`, nil))
	b.until("nonce 1 waits for ", "is broadcast", "Cancel the intent")
	b.do("it is cancelled", chromedp.Click(`//button[text()="Cancel the intent"]`))
	harness.Until(t, harness.StartLimit, "something else is sent in its place", func() bool { // before a block takes the intent itself
		api(t, "GET", manager+"/v1/transactions/"+sent.ID, "", &sent)
		return len(sent.Attempts) > 1 && sent.Attempts[len(sent.Attempts)-1].SentAt != ""
	})
	harness.Until(t, harness.StartLimit, "the intent is cancelled", func() bool {
		call("anvil_mine", "0x1")
		api(t, "GET", manager+"/v1/transactions/"+sent.ID, "", &sent)
		return sent.Status == "cancelled"
	})

	api(t, "POST", manager+"/v1/signers/31337/"+signer+"/min-balance", `{"minBalance":"11000000000000000000000"}`, nil)
	b.until("low_balance: its signer holds less", "Top up")
	b.do("the treasury fills it up", chromedp.Click(`//button[text()="Top up"]`))
	var list struct {
		Transactions []struct{ To, Value, Method string }
	}
	harness.Until(t, harness.StartLimit, "money is on its way", func() bool {
		api(t, "GET", manager+"/v1/transactions?signer="+treasury, "", &list)
		return len(list.Transactions) == 1
	})
	if top := list.Transactions[0]; !strings.EqualFold(top.To, signer) || len(top.Value) != 22 { // some two thousand coins
		t.Errorf("the top-up is %+v", top)
	}
}

// emitterCode makes a contract that logs with two topics, the first two words of the call data.
const emitterCode = "0x6b6020355f355f5fa2000000005f52600c6014f3"

// TestWatchers walks through the watchers' views while a watcher follows a contract on a development network, and a sink refuses events
// for a while.
func TestWatchers(t *testing.T) {
	c := start(t)
	alice := c.Accounts[0].Address
	receipt := must.Get(c.call("eth_getTransactionReceipt", c.send(map[string]any{"from": alice, "data": emitterCode, "gas": "0x493e0"})))(t)
	var made struct{ ContractAddress string }
	if err := json.Unmarshal(receipt, &made); err != nil || made.ContractAddress == "" {
		t.Fatalf("%v %s", err, receipt)
	}
	approve := func(n byte) string {
		topic := crypto.Keccak256Hash([]byte("Approved(address)"))
		return c.send(map[string]any{"from": alice, "to": made.ContractAddress, "gas": "0x30d40", "data": fmt.Sprintf("0x%x%x", topic[:], common.BytesToHash([]byte{n}))})
	}

	var refuses atomic.Bool
	refuses.Store(true)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer target.Close()
	file := filepath.Join(t.TempDir(), "watch.yaml")
	plan := fmt.Sprintf(`
chains:
  - id: 298
    urls: [%q]
watches:
  - name: approvals
    chain: 298
    addresses: [%q]
    events: ["Approved(address indexed by)"]
    sinks: [stdout, %q]
`, c.RPC, made.ContractAddress, "webhook:"+target.URL+"/hook")
	must.Do(t, os.WriteFile(file, []byte(plan), 0o600))
	settings := []string{
		"DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "watch.db"), "WATCH_LOOPBACK_TOKEN=false", "WATCH_ADDRESS=127.0.0.1:0", "INSTANCE_ID=west", "PRETTY_LOGS_ENABLED=false",
		"WATCH_WEBHOOK_ALLOW=127.0.0.1", "WATCH_WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=",
	}
	url := harness.Command{Name: "watch", Settings: settings, Args: []string{"watch", file}}.Start(t).URL("the watchers' listener is open")
	for n := range byte(3) {
		approve(n + 1)
	}

	b := open(t, url+"/ui/")
	b.do("the page", chromedp.Navigate(b.base))
	b.until("watchers", "approvals", "west", "1 shard", "webhook")
	approve(0x55)
	b.rate("approvals", func(rate float64) bool { return rate > 0 })
	b.accessible("watchers-watches")

	b.view("events")
	b.until("Approved", "by ", "0x00000000…000055")
	b.accessible("watchers-events")
	last := approve(0x77) // it shows without asking again
	b.until("0x00000000…000077", last[:10])

	b.view("sinks")
	b.until("stdout", "takes messages", "webhook:", "has taken nothing for", "503")
	harness.Until(t, harness.StartLimit, "the page counts the backlog", func() bool {
		var backlog string
		b.do("the backlog", chromedp.Evaluate(`[...document.querySelectorAll('tbody tr')].find(r => r.innerText.startsWith('webhook'))?.children[3].innerText ?? ''`, &backlog))
		return backlog == "5"
	})
	b.accessible("watchers-sinks")
	refuses.Store(false)
	harness.Until(t, harness.StartLimit, "the sink takes messages again", func() bool {
		text := b.text()
		return !strings.Contains(text, "taken nothing") && strings.Count(text, "takes messages") == 2
	})

	b.view("processes")
	b.until("west", "active", "s ago")
	b.accessible("watchers-processes")
	b.view("watch/approvals")
	b.until("Watch approvals", "Approved(address", "Contracts", "given", "shard:298:", "Backfills", "Nobody has asked")
	b.accessible("watchers-watch")
	api(t, "POST", url+"/v1/watches/approvals/backfill?from=0&repeat=true", "", nil)
	b.until("done")
	b.view("watch/nothing")
	b.until("This process has no watch nothing.")

	b.view("watches")
	b.do("a search", chromedp.SendKeys("#wanted", made.ContractAddress+kb.Enter, chromedp.ByQuery))
	b.until("Events of an address", "Approved", "0x00000000…000077")
	b.accessible("watchers-contract")
	b.do("a search for nothing", cleared, chromedp.SendKeys("#wanted", "seven"+kb.Enter, chromedp.ByQuery))
	b.until("Events with an argument", "No event among the newest 500 has it as an argument.")
	b.do("a search for an argument", cleared, chromedp.SendKeys("#wanted", "0x0000000000000000000000000000000000000077"+kb.Enter, chromedp.ByQuery))
	b.until("Events of an address", "It has no event among the newest 500.", "Approved", "0x00000000…000077")
}

// rate waits until the page shows a rate of events of a watch that is as wanted.
func (b *browser) rate(watch string, wanted func(float64) bool) {
	b.t.Helper()
	harness.Until(b.t, harness.StartLimit, "the rate of events", func() bool {
		var text string
		b.do("the rate", chromedp.Evaluate(fmt.Sprintf(`(() => {
			const at = [...document.querySelectorAll('thead th')].findIndex(t => t.innerText === 'Events/s');
			return [...document.querySelectorAll('tbody tr')].find(r => r.innerText.startsWith(%q))?.children[at].innerText ?? '';
		})()`, watch), &text))
		rate, err := strconv.ParseFloat(text, 64)
		return err == nil && wanted(rate)
	})
}

// shop is somebody's page with the TypeScript client in it.
const shop = `<!doctype html><title>Shop</title><body><p id=fate>waiting</p><script type=module>
import { TxManager, executed } from '/lockstep-txm/index.js';
const txm = new TxManager({ url: location.origin });
const payment = { chain: 298, to: '0x05FbA803Be258049A27B820088bab1cAD2058871', value: 10n ** 18n };
const tx = await txm.send(payment, { idempotencyKey: 'order-17', wait: 'mined' });
const again = await txm.send(payment, { idempotencyKey: 'order-17' });
document.getElementById('fate').textContent = (executed(tx) ? 'paid by ' : 'not paid ') + tx.hash + (again.id === tx.id ? ', once' : ', twice');
</script>`

// TestTypeScriptInAPage has a page pay by the TypeScript client. The page's own server, which alone has a key, hands the calls on.
func TestTypeScriptInAPage(t *testing.T) {
	var ready struct{ TX string }
	harness.Command{
		Name: "dev", Settings: harness.Patient(),
		Args: []string{"dev", "--json", "--tx", "--tx-address", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0"},
	}.Start(t).ReadReady(&ready)
	var admin, sender struct{ Token string }
	api(t, "POST", ready.TX+"/v1/api-keys", `{"role":"admin"}`, &admin)
	api(t, "POST", ready.TX+"/v1/api-keys", `{"role":"send"}`, &sender, "Authorization", "Bearer "+admin.Token)
	manager := must.Get(url.Parse(ready.TX))(t)

	mux := http.NewServeMux()
	mux.Handle("/lockstep-txm/", http.StripPrefix("/lockstep-txm/", http.FileServer(http.Dir(compiled(t)))))
	mux.Handle("/v1/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(manager)
		r.Out.Header.Set("Authorization", "Bearer "+sender.Token)
	}})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, shop) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	b := open(t, server.URL+"/")
	b.do("the page", chromedp.Navigate(b.base))
	b.until("paid by 0x", ", once")
}

// compiled returns a folder with the client as browsers load it.
func compiled(t *testing.T) string {
	t.Helper()
	modules := must.Get(filepath.Abs("../node_modules"))(t)
	source := t.TempDir()
	must.Do(t, os.CopyFS(source, os.DirFS("../../clients/typescript")))
	_ = os.RemoveAll(filepath.Join(source, "node_modules")) // a developer's, which need not be ours
	must.Do(t, os.Symlink(modules, filepath.Join(source, "node_modules")))
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(modules, "typescript", "bin", "tsc"))
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(source, "dist")
}
