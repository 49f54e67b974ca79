package ui_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/e2e/harness"
)

var update = flag.Bool("update", false, "keep what the views look like in docs/ui")

const checker = "../node_modules/axe-core/axe.min.js"

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, filepath.Join("..", ".."), func() error {
		if _, err := os.Stat(checker); err != nil {
			return fmt.Errorf("axe-core is not installed: run scripts/setup.sh")
		}
		if _, err := exec.LookPath("chromium"); err != nil {
			return fmt.Errorf("chromium is not installed: run scripts/setup.sh")
		}
		return nil
	}))
}

// chain is a development network with its page.
type chain struct {
	t        *testing.T
	RPC      string
	UI       string
	Accounts []struct{ Address, PrivateKey string }
}

func start(t *testing.T, environ ...string) *chain {
	t.Helper()
	c := &chain{t: t}
	p := harness.Command{
		Name: "dev", Settings: append(harness.Patient(), environ...),
		Args: []string{"dev", "--json", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0", "--ui", "127.0.0.1:0"},
	}.Start(t)
	p.ReadReady(c)
	return c
}

// call asks the relay at its own port.
func (c *chain) call(method string, params ...any) (json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.RPC, strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	var reply struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil {
		return nil, err
	}
	if reply.Error != nil {
		return nil, fmt.Errorf("%s: %s", method, reply.Error.Message)
	}
	return reply.Result, nil
}

// send sends from an account of the chain and returns the hash.
func (c *chain) send(tx map[string]any) string {
	c.t.Helper()
	result, err := c.call("eth_sendTransaction", tx)
	if err != nil {
		c.t.Fatal(err)
	}
	var hash string
	if err := json.Unmarshal(result, &hash); err != nil {
		c.t.Fatal(err)
	}
	return hash
}

// sign makes a transaction of the first account to the second.
func (c *chain) sign(nonce uint64) string {
	c.t.Helper()
	key, err := crypto.HexToECDSA(strings.TrimPrefix(c.Accounts[0].PrivateKey, "0x"))
	if err != nil {
		c.t.Fatal(err)
	}
	to := common.HexToAddress(c.Accounts[1].Address)
	tx, err := types.SignNewTx(key, types.NewEIP155Signer(big.NewInt(298)), &types.LegacyTx{Nonce: nonce, To: &to, Value: big.NewInt(1e10), Gas: 21_000, GasPrice: big.NewInt(2e12)})
	if err != nil {
		c.t.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		c.t.Fatal(err)
	}
	return hexutil.Encode(raw)
}

// browser is one tab. What goes wrong in it fails the test.
type browser struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu    sync.Mutex
	wrong []string // guarded by mu
	asked []string // guarded by mu; the URLs of all requests
}

func open(t *testing.T, base string) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(harness.StartLimit))
	process, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	tab, closeTab := chromedp.NewContext(process)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(tab, 6*harness.StartLimit)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx, base: base}
	chromedp.ListenTarget(ctx, b.hear)
	b.do("the browser starts", network.Enable(), runtime.Enable())
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, what := range b.wrong {
			t.Error(what)
		}
	})
	return b
}

// hear notes exceptions of the page, and requests that go elsewhere.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, "the page threw "+e.ExceptionDetails.Error())
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
		if url := e.Request.URL; !strings.HasPrefix(url, strings.TrimSuffix(b.base, "ui/")) && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "about:") {
			b.wrong = append(b.wrong, "the page asked "+url)
		}
	}
}

// decodings is how often the page has asked for words so far.
func (b *browser) decodings() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.asked {
		if strings.HasSuffix(url, "/ui/decode") {
			n++
		}
	}
	return n
}

func (b *browser) do(what string, actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v\n%s", what, err, b.text())
	}
}

// text is what the page shows now.
func (b *browser) text() (text string) {
	if err := chromedp.Run(b.ctx, chromedp.Evaluate(`document.body.innerText`, &text)); err != nil {
		return err.Error()
	}
	return text
}

// until waits until the page shows every one of the texts.
func (b *browser) until(wanted ...string) {
	b.t.Helper()
	defer func() {
		if b.t.Failed() {
			b.t.Log(b.text())
		}
	}()
	harness.Until(b.t, harness.StartLimit, fmt.Sprintf("the page shows %q", wanted), func() bool {
		text := b.text()
		for _, w := range wanted {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	})
}

func (b *browser) view(path string) {
	b.t.Helper()
	name, _, _ := strings.Cut(path, "/")
	b.do("the view "+path, chromedp.Navigate(b.base+"#/"+path), chromedp.WaitVisible(`main[data-view="`+name+`"] h1`, chromedp.ByQuery))
}

// accessible fails the test for each violation that the checker finds, in light and in dark.
func (b *browser) accessible(name string) {
	b.t.Helper()
	source, err := os.ReadFile(checker)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		var found []string
		b.do("checking "+name,
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
			chromedp.Evaluate(string(source)+";0", nil),
			chromedp.Evaluate(`axe.run().then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html).slice(0, 3).join(" | ")))`, &found,
				func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		for _, f := range found {
			b.t.Errorf("%s, %s: %s", name, scheme, f)
		}
		if scheme == "light" || name == "transaction" || name == "manager-intent" { // these show what dark is like
			b.picture(name + "-" + scheme)
		}
	}
}

// picture keeps what the view looks like, when asked to.
func (b *browser) picture(name string) {
	b.t.Helper()
	if !*update {
		return
	}
	var png []byte
	b.do("a picture of "+name, chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join("..", "..", "docs", "ui", name+".png"), png, 0o644); err != nil { //nolint:gosec // a picture for everybody
		b.t.Fatal(err)
	}
}

// TestViews walks through the views of a developer, after things have happened.
func TestViews(t *testing.T) {
	c := start(t)
	alice, bob := c.Accounts[0].Address, c.Accounts[1].Address
	c.send(map[string]any{"from": alice, "to": bob, "value": "0xde0b6b3a7640000"})
	// A contract whose whole code is: memory[0] = selector; memory[4] = 0x20; memory[36] = 2; memory[68] = "no"; revert(0, 100).
	body := "7f08c379a0" + strings.Repeat("00", 28) + "600052" + "6020600452" + "6002602452" + "7f6e6f" + strings.Repeat("00", 30) + "604452" + "60646000fd"
	size := len(body) / 2
	creation := fmt.Sprintf("0x60%02x600c60003960%02x6000f3%s", size, size, body)
	made := c.send(map[string]any{"from": alice, "data": creation, "gas": "0x493e0"})
	receipt, err := c.call("eth_getTransactionReceipt", made)
	if err != nil {
		t.Fatal(err)
	}
	var contract struct{ ContractAddress string }
	if err := json.Unmarshal(receipt, &contract); err != nil || contract.ContractAddress == "" {
		t.Fatalf("%v %s", err, receipt)
	}
	// transfer(bob, 42), which the contract refuses.
	call := "0xa9059cbb" + strings.Repeat("0", 24) + strings.ToLower(bob[2:]) + strings.Repeat("0", 62) + "2a"
	refused := c.send(map[string]any{"from": alice, "to": contract.ContractAddress, "data": call, "gas": "0x30d40"})

	// A contract that calls the first one five times, whatever comes of it.
	inner := strings.Repeat("6000600060006000600073"+strings.TrimPrefix(strings.ToLower(contract.ContractAddress), "0x")+"5af150", 5) + "00"
	outer := c.send(map[string]any{"from": alice, "data": "0x" + inner, "gas": "0x7a120"})

	b := open(t, c.UI)
	b.view("blocks")
	b.until("Newest blocks", "Newest transactions", "1 ℏ")
	b.accessible("blocks")

	b.view("tx/" + refused)
	b.until("reverted", "Error(reason no)", "transfer(to "+strings.ToLower(bob)[:4], "Timeline", "received", "consensus", "CALL")
	b.accessible("transaction")

	before := b.decodings()
	b.view("tx/" + outer)
	b.until("Calls", "CREATE", "CALL")
	if n := b.decodings() - before; n != 2 {
		t.Errorf("the page asked %d times for words: once for the transaction and once for all its calls are enough", n)
	}

	b.view("block/1")
	b.until("Block 1", "Gas used")

	b.view("accounts")
	b.until("Faucet", strings.ToLower(alice))
	b.accessible("accounts")
	const stranger = "0xabcdef0123456789abcdef0123456789abcdef01"
	b.do("the faucet", chromedp.SendKeys("#field-faucet", stranger, chromedp.ByQuery), chromedp.SendKeys("#field-amount", kb.Home+kb.Delete+kb.Delete+kb.Delete+"7"+kb.Enter, chromedp.ByQuery))
	b.until("got 7 ℏ")
	b.do("sending", chromedp.SendKeys("#field-to", stranger, chromedp.ByQuery), chromedp.SendKeys("#field-value", kb.Home+kb.Delete+"0.5"+kb.Enter, chromedp.ByQuery))
	b.until("Transaction", "executed", "0.5 ℏ")
	b.view("account/" + stranger)
	b.until("7.5 ℏ")
	b.accessible("account")

	b.view("tokens")
	b.until("There are no tokens yet.")
	b.accessible("tokens")
	b.view("methods")
	b.until("eth_sendTransaction", "99 %, ms")
	b.accessible("methods")
	b.view("upstreams")
	b.until("mirror", "0.0.3", "up", "Balance of the operator")
	b.accessible("upstreams")

	b.view("abi")
	b.do("an ABI", chromedp.SetValue("#field-abi", `{"abi":[{"type":"function","name":"transfer","inputs":[{"name":"whom","type":"address"},{"name":"cents","type":"uint256"}]}]}`, chromedp.ByQuery), chromedp.Click(`//button[text()="Keep"]`))
	b.until("1 entries are kept")
	b.accessible("abi")
	b.view("tx/" + refused)
	b.until("transfer(whom ")
	b.view("tx/0x" + strings.Repeat("12", 32))
	b.until("Nothing is known of")
}

// TestLanes shows a sender whose transaction waits for a missing nonce, and finds it by keys alone.
func TestLanes(t *testing.T) {
	c := start(t, "NONCE_GAP_HOLD_MS=240000")
	alice := c.Accounts[0].Address
	early, raw := make(chan error, 1), c.sign(1)
	go func() {
		_, err := c.call("eth_sendRawTransaction", raw)
		early <- err
	}()
	b := open(t, c.UI)
	b.view("lanes")
	b.until("waits for 0", "nobody", "kept")
	b.accessible("lanes")
	b.do("the order is switched off and on", chromedp.Evaluate(`window.confirm = () => true; 0`, nil), chromedp.Click(`//button[text()="Stop keeping the order"]`))
	b.until("not kept")
	b.do("on again", chromedp.Click(`//button[text()="Keep the order"]`))
	b.until("Stop keeping the order")

	if _, err := c.call("eth_sendRawTransaction", c.sign(0)); err != nil {
		t.Error(err)
	}
	if err := <-early; err != nil {
		t.Error(err)
	}
	b.until("No transaction is on its way.")
	b.do("a search by keys", input.DispatchKeyEvent(input.KeyRawDown).WithKey("/"), chromedp.KeyEvent(alice), chromedp.KeyEvent(kb.Enter))
	b.until("Account", "Nonce", "2")
	var focus string
	b.do("where the focus is", chromedp.Evaluate(`document.activeElement.id`, &focus))
	if focus != "main" {
		t.Errorf("after a search the focus is at %q", focus)
	}
}

// TestToken asks for the console's token, and shows nothing before.
func TestToken(t *testing.T) {
	c := start(t, "ADMIN_TOKEN=sesame")
	b := open(t, c.UI)
	b.do("the page", chromedp.Navigate(b.base))
	b.until("ADMIN_TOKEN")
	b.accessible("token")
	b.do("a wrong token", chromedp.SendKeys("#field-token", "wrong"+kb.Enter, chromedp.ByQuery))
	b.until("That is not the token.")
	b.do("the right token", chromedp.SendKeys("#field-token", "sesame"+kb.Enter, chromedp.ByQuery))
	b.until("Newest blocks")
}
