package ui_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
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
	Mirror   string
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
func (c *chain) call(method string, params ...any) (result json.RawMessage, err error) {
	client, err := rpc.DialContext(c.t.Context(), c.RPC)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return result, client.CallContext(c.t.Context(), &result, method, params...)
}

// send sends from an account of the chain and returns the hash.
func (c *chain) send(tx map[string]any) string {
	c.t.Helper()
	result := must.Get(c.call("eth_sendTransaction", tx))(c.t)
	var hash string
	must.Do(c.t, json.Unmarshal(result, &hash))
	return hash
}

// deploy makes a contract and returns its address.
func (c *chain) deploy(from, code string) string {
	c.t.Helper()
	receipt := must.Get(c.call("eth_getTransactionReceipt", c.send(map[string]any{"from": from, "data": code, "gas": "0x493e0"})))(c.t)
	var made struct{ ContractAddress string }
	if err := json.Unmarshal(receipt, &made); err != nil || made.ContractAddress == "" {
		c.t.Fatalf("%v %s", err, receipt)
	}
	return made.ContractAddress
}

// createToken lets an account make a token with the system contract of the token service.
func (c *chain) createToken(from, name, symbol string, supply int64, decimals int32) {
	c.t.Helper()
	// createFungibleToken(token, supply, decimals)
	c.tokenService(from, "0x0fb65bf3"+words(3*32, supply, int64(decimals))+newToken(from, name, symbol, words(0)), costOfToken)
}

// createNFT lets an account make a token of NFTs, and mints the first.
func (c *chain) createNFT(from, name, symbol, metadata string) {
	c.t.Helper()
	// Of one key, that of the supply (16), which is the account's own: (kind, (inherited, contract, ed25519, ecdsa, delegatable)).
	keys := words(1, 32, 16, 64, 1, 0, 5*32, 6*32, 0, 0, 0)
	c.tokenService(from, "0xea83f293"+words(32)+newToken(from, name, symbol, keys), costOfToken) // createNonFungibleToken(token)
	var newest struct {
		Tokens []struct {
			ID string `json:"token_id"`
		}
	}
	api(c.t, http.MethodGet, c.Mirror+"/api/v1/tokens?order=desc&limit=1", "", &newest)
	if len(newest.Tokens) != 1 {
		c.t.Fatal("the network has no tokens")
	}
	var number int64
	must.Get(fmt.Sscanf(newest.Tokens[0].ID, "0.0.%d", &number))(c.t)
	c.tokenService(from, "0xe0f4059a"+words(number, 0, 3*32, 1, 32)+short(metadata), "0x0") // mintToken(token, amount, metadata)
}

// newToken is (name, symbol, treasury, memo, finite, maximum, frozen, keys, (second, payer, period)) as a call has it. What has no
// fixed length stands behind the eleven words of what has.
func newToken(treasury, name, symbol, keys string) string {
	const fixed = 11 * 32
	treasury = strings.Repeat("0", 24) + strings.ToLower(strings.TrimPrefix(treasury, "0x"))
	return words(fixed, fixed+64) + treasury + words(fixed+128, 0, 0, 0, fixed+160, 0) + treasury + words(8_000_000) + short(name) + short(symbol) + words(0) + keys
}

// words are numbers as a call has them.
func words(numbers ...int64) (out string) {
	for _, n := range numbers {
		out += fmt.Sprintf("%064x", n)
	}
	return out
}

// short is a text of no more than 32 bytes as a call has it.
func short(s string) string {
	written := hex.EncodeToString([]byte(s))
	return words(int64(len(s))) + written + strings.Repeat("0", 64-len(written))
}

const costOfToken = "0x2b5e3af16b1880000" // 50 ℏ, in weibar

// tokenService calls the system contract of the token service, with what that costs in weibar.
func (c *chain) tokenService(from, data, value string) {
	c.t.Helper()
	receipt, err := c.call("eth_getTransactionReceipt", c.send(map[string]any{"from": from, "to": "0x0000000000000000000000000000000000000167", "data": data, "gas": "0x2dc6c0", "value": value}))
	if err != nil || !strings.Contains(string(receipt), `"status":"0x1"`) {
		c.t.Fatalf("%v %s", err, receipt)
	}
}

// sign makes a transaction of the first account to the second.
func (c *chain) sign(nonce uint64) string { return c.signBy(0, nonce) }

// signBy makes a transaction of one of the accounts to the second.
func (c *chain) signBy(account int, nonce uint64) string {
	c.t.Helper()
	key := must.Get(crypto.HexToECDSA(strings.TrimPrefix(c.Accounts[account].PrivateKey, "0x")))(c.t)
	to := common.HexToAddress(c.Accounts[1].Address)
	tx := must.Get(types.SignNewTx(key, types.NewEIP155Signer(big.NewInt(298)), &types.LegacyTx{Nonce: nonce, To: &to, Value: big.NewInt(1e10), Gas: 21_000, GasPrice: big.NewInt(2e12)}))(c.t)
	raw := must.Get(tx.MarshalBinary())(c.t)
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
	if err := chromedp.Run(ctx, network.Enable(), runtime.Enable(), log.Enable()); err != nil { // the browser lives as long as this context
		t.Fatalf("the browser starts: %v", err)
	}
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
	case *log.EventEntryAdded:
		// That something does not exist, or that a token is wanted, is an answer like others.
		if e.Entry.Level == log.LevelError && !strings.Contains(e.Entry.Text, "status of 404") && !strings.Contains(e.Entry.Text, "status of 401") {
			b.wrong = append(b.wrong, "the browser says: "+e.Entry.Text+" "+e.Entry.URL)
		}
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

// do acts on the page. An element that never comes, say a button whose text is another one, is an error that shows the page.
func (b *browser) do(what string, actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, harness.StartLimit)
	defer cancel()
	for _, action := range actions {
		err := chromedp.Run(ctx, action)
		for tries := 0; redrawn(err) && tries < 10; tries++ {
			err = chromedp.Run(ctx, action)
		}
		if err != nil {
			b.t.Fatalf("%s: %v\n%s", what, err, b.text())
		}
	}
}

// redrawn tells whether the page has replaced the element between the moment at which it was found and its use. Then nothing was
// clicked or typed.
func redrawn(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Could not find node with given id")
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

// accessible fails the test for each violation that the checker finds, in light and in dark, and if the view is wider than a phone. It keeps
// what the view looks like in both, on a screen and on a phone.
func (b *browser) accessible(name string) {
	b.t.Helper()
	source := must.Get(os.ReadFile(checker))(b.t)
	for _, scheme := range []string{"light", "dark"} {
		var found []string
		b.do("checking "+name,
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}), // no colour between two
			chromedp.Evaluate(string(source)+";0", nil),
			chromedp.Evaluate(`axe.run().then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html).slice(0, 3).join(" | ")))`, &found,
				func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		for _, f := range found {
			b.t.Errorf("%s, %s: %s", name, scheme, f)
		}
		b.picture(name + "-" + scheme)
		var wide int64
		b.do(name+" on a phone", emulation.SetDeviceMetricsOverride(390, 844, 1, true), chromedp.Evaluate(`document.documentElement.scrollWidth`, &wide))
		if wide > 390 {
			b.t.Errorf("%s is %d wide on a phone of 390", name, wide)
		}
		b.picture(name + "-phone-" + scheme)
		// The browser widens the page some time after it has answered. Until then whatever is clicked next is still where the phone had it.
		b.do("the wide screen", emulation.ClearDeviceMetricsOverride(), chromedp.Poll(`innerWidth > 390`, nil))
	}
}

// picture keeps what the view looks like, when asked to.
func (b *browser) picture(name string) {
	b.t.Helper()
	if !*update {
		return
	}
	var picture []byte
	b.do("a picture of "+name, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		picture, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithFormat(page.CaptureScreenshotFormatWebp).WithQuality(80).Do(ctx)
		return err
	}))
	if err := os.WriteFile(filepath.Join("..", "..", "docs", "ui", name+".webp"), picture, 0o644); err != nil { //nolint:gosec // a picture for everybody
		b.t.Fatal(err)
	}
}

// TestViews walks through the views of a developer, after things have happened.
func TestViews(t *testing.T) {
	c := start(t, "HBAR_RATE_LIMIT_TINYBAR=25000000000")
	alice, bob := c.Accounts[0].Address, c.Accounts[1].Address
	c.send(map[string]any{"from": alice, "to": bob, "value": "0xde0b6b3a7640000"})
	// A contract whose whole code is: memory[0] = selector; memory[4] = 0x20; memory[36] = 2; memory[68] = "no"; revert(0, 100).
	body := "7f08c379a0" + strings.Repeat("00", 28) + "600052" + "6020600452" + "6002602452" + "7f6e6f" + strings.Repeat("00", 30) + "604452" + "60646000fd"
	size := len(body) / 2
	creation := fmt.Sprintf("0x60%02x600c60003960%02x6000f3%s", size, size, body)
	contract := c.deploy(alice, creation)
	// transfer(bob, 42), which the contract refuses.
	call := "0xa9059cbb" + strings.Repeat("0", 24) + strings.ToLower(bob[2:]) + strings.Repeat("0", 62) + "2a"
	refused := c.send(map[string]any{"from": alice, "to": contract, "data": call, "gas": "0x30d40"})

	// A contract that calls the first one five times, whatever comes of it.
	inner := strings.Repeat("6000600060006000600073"+strings.TrimPrefix(strings.ToLower(contract), "0x")+"5af150", 5) + "00"
	outer := c.send(map[string]any{"from": alice, "data": "0x" + inner, "gas": "0x7a120"})

	b := open(t, c.UI)
	b.view("home")
	b.until("Newest blocks", "Newest transactions", "1 ℏ", "transfer ℏ", "new contract", "reverted", "Transactions in the last minute")
	b.accessible("home")

	// The list is drawn again while a link in it is being pressed: the link is followed.
	var at struct{ X, Y float64 }
	b.do("a link", chromedp.Evaluate(`(() => {
		const link = document.querySelector('a[href="#/tx/`+outer+`"]');
		link.scrollIntoView({ block: 'center' });
		const { left, top, height } = link.getBoundingClientRect();
		return { x: left + 5, y: top + height / 2 };
	})()`, &at))
	b.do("pressing it", chromedp.MouseEvent(input.MousePressed, at.X, at.Y, chromedp.ButtonLeft))
	b.until(c.send(map[string]any{"from": alice, "to": bob, "value": "0x0"})[:10])
	b.do("letting it go", chromedp.MouseEvent(input.MouseReleased, at.X, at.Y, chromedp.ButtonLeft))
	b.until("Timeline", "with nonce 3")

	b.view("tx/" + refused)
	b.until("reverted", "Error(reason no)", "transfer(to "+strings.ToLower(bob)[:4], "Timeline", "waiting in line", "to consensus", "CALL", "Fee", "Hedera id", "with nonce 2")
	b.accessible("transaction")
	b.do("the one after it", chromedp.Click(`//a[text()="next →"]`))
	b.until("CREATE", "CALL", "← previous")
	b.do("and back", chromedp.Click(`//a[text()="← previous"]`))
	b.until("Error(reason no)", "with nonce 2")

	before := b.decodings()
	b.view("tx/" + outer)
	b.until("Calls", "CREATE", "CALL")
	if n := b.decodings() - before; n != 2 {
		t.Errorf("the page asked %d times for words: once for the transaction and once for all its calls are enough", n)
	}

	b.view("block/1")
	b.until("Block 1", "Gas used")
	b.accessible("block")

	b.view("accounts")
	b.until("Send test hbar", strings.ToLower(alice), "10,000 ℏ")
	b.accessible("accounts")
	order := b.tab()
	for _, control := range []string{"skip", "wanted", "field-faucet", "field-amount", "Send test hbar", "field-from", "field-to", "field-value", "field-data", "Send", "#/home"} {
		if !slices.Contains(order, control) {
			t.Errorf("the key Tab leads to %q, not to %s", order, control)
		}
	}
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
	c.createToken(alice, "Harbour Coin", "HBC", 123_456, 2)
	b.view("home")
	b.view("tokens")
	b.until("Harbour Coin", "HBC", "fungible")
	b.accessible("tokens")
	b.do("the token", chromedp.Click(`//main//td/a`))
	b.until("Harbour Coin (HBC)", "1,234.56 HBC", "fungible", "Holders", "0.0.")
	b.accessible("token-holders")
	c.createNFT(alice, "Harbour Berth", "HBB", "berth 7")
	b.view("account/" + strings.ToLower(alice) + "/tokens")
	b.until("Token balances", "HBC", "1,234.56", "HBB", "1 NFT")
	b.view("account/" + strings.ToLower(alice) + "/nfts")
	b.until("Its NFTs", "berth 7")
	b.accessible("account-nfts")
	b.view("methods")
	b.until("eth_sendTransaction", "99 %, ms")
	b.accessible("methods")
	b.view("upstreams")
	b.until("mirror", "0.0.3", "up", "Balance of the operator", " of 250 ℏ")
	var left float64
	if b.do("what is left of the budget", chromedp.Evaluate(`document.querySelector('meter').value`, &left)); left <= 0 || left > 1 {
		t.Errorf("the meter of the budget shows %v", left)
	}
	b.accessible("upstreams")

	b.view("abi")
	b.do("an ABI", chromedp.SetValue("#field-abi", `{"abi":[{"type":"function","name":"transfer","inputs":[{"name":"whom","type":"address"},{"name":"cents","type":"uint256"}]}]}`, chromedp.ByQuery), chromedp.Click(`//button[text()="Add ABI"]`))
	b.until("1 entry is kept", "Functions (1)")
	b.accessible("abi")
	b.view("tx/" + refused)
	b.until("transfer(whom ")
	b.events(c, alice)
	b.view("tx/0x" + strings.Repeat("12", 32))
	b.until("Nothing is known of")
	b.view("nothing")
	b.until("Not found", "no such view")
	b.contract(c, alice, contract)
	b.searches(c, alice)
	b.view("charts")
	b.until("Transactions", "executed", "99 of 100 under", "Time of the mirror node", "Calls by method", "Time by method")
	b.accessible("charts")
}

// counterCode makes a contract with value(), which returns slot 0, and set(uint256), which writes it.
const counterCode = "0x6033600c60003960336000f3" + "60003560e01c80633fa4f24514601f57806360fe47b114602b5760006000fd" + "5b60005460005260206000f3" + "5b60043560005500"

// contract reads and writes one by its ABI, and shows what it has.
func (b *browser) contract(c *chain, from, refusing string) {
	b.t.Helper()
	address := strings.ToLower(c.deploy(from, counterCode))
	b.view("abi")
	b.do("its ABI", chromedp.SetValue("#field-abi", `[{"type":"function","name":"value","inputs":[],"outputs":[{"type":"uint256"}],"stateMutability":"view"},
		{"type":"function","name":"set","inputs":[{"name":"to","type":"uint256"}],"outputs":[],"stateMutability":"nonpayable"}]`, chromedp.ByQuery), chromedp.Click(`//button[text()="Add ABI"]`))
	b.until("4 entries are kept")
	b.view("account/" + address + "/storage")
	b.until("Contract", "Creator", "Hedera id", "It has written nothing.")
	b.view("account/" + address + "/call")
	b.until("Read", "Write", "value", "set")
	b.do("writing", chromedp.Click(`//summary[strong="set"]`), chromedp.SetValue("#fSend0-0", "4242", chromedp.ByQuery), chromedp.Click(`//button[text()="Send"]`))
	b.until("executed 0x")
	b.do("reading", chromedp.Click(`//summary[strong="value"]`), chromedp.Click(`//button[text()="Read"]`))
	b.until("4242")
	b.accessible("contract")
	b.view("account/" + address + "/storage")
	b.until("0x1092")
	b.view("account/" + strings.ToLower(refusing) + "/transactions")
	b.until("transfer", "reverted")
}

// searches finds things by all that names them.
func (b *browser) searches(c *chain, alice string) {
	b.t.Helper()
	for text, want := range map[string][]string{
		strings.ToUpper(strings.TrimPrefix(alice, "0x")): {"Account", strings.ToLower(alice), "Hedera id"},
		"0.0.1002": {"Account", "Balance"}, "1": {"Block 1"}, "hbc": {"Harbour Coin (HBC)"}, "nobody's coin": {"Nothing is named nobody's coin"},
	} {
		b.do("a search for "+text, chromedp.SetValue("#wanted", text, chromedp.ByQuery), chromedp.SendKeys("#wanted", kb.Enter, chromedp.ByQuery))
		b.until(want...)
	}
}

// events drops an ABI into the page, which then names an event that it did not know.
func (b *browser) events(c *chain, from string) {
	b.t.Helper()
	logged := func(contract, signature string) string {
		topic := crypto.Keccak256Hash([]byte(signature))
		return c.send(map[string]any{"from": from, "to": contract, "gas": "0x30d40", "data": fmt.Sprintf("0x%x%x", topic[:], common.BytesToHash([]byte{0x77}))})
	}
	contract := c.deploy(from, emitterCode)
	known, own := logged(contract, "Upgraded(address)"), logged(contract, "Moored(uint256)")
	b.view("tx/" + known)
	b.until("Events", "Upgraded(implementation 0x")
	b.view("tx/" + own)
	b.until("Events", crypto.Keccak256Hash([]byte("Moored(uint256)")).Hex())
	b.view("abi")
	artifact := `{"abi":[{"type":"event","name":"Moored","inputs":[{"name":"berth","type":"uint256","indexed":true}]}]}`
	b.do("a file is dropped", chromedp.Evaluate(fmt.Sprintf(`(() => {
		const dropped = new DataTransfer();
		dropped.items.add(new File([%q], 'Harbour.json', { type: 'application/json' }));
		document.getElementById('field-abi').dispatchEvent(new DragEvent('drop', { dataTransfer: dropped, bubbles: true, cancelable: true }));
		return 0;
	})()`, artifact), nil))
	b.until("2 entries are kept", "are shown in words")
	b.view("tx/" + own)
	b.until("Events", "Moored(berth 119)")
	b.accessible("transaction-events")
}

// tab walks through the page by the key Tab alone, and fails the test for each control that the keys do not reach. It
// returns the names of the controls in their order.
func (b *browser) tab() []string {
	b.t.Helper()
	const name = `const name = (n) => n.id || n.dataset.key || n.getAttribute('href') || n.getAttribute('aria-label') || n.innerText;`
	var wanted, seen []string
	b.do("the controls", chromedp.Evaluate(`(() => { `+name+` document.activeElement?.blur();
		return [...document.querySelectorAll('a[href], button, input, select, textarea, [tabindex="0"]')].filter((n) => !n.disabled && n.tabIndex >= 0 && n.checkVisibility()).map(name); })()`, &wanted))
	b.do("the start of the page", chromedp.Evaluate(`document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex'); 0`, nil))
	for range len(wanted) + 10 { // the browser may stop at what scrolls, too
		var now string
		b.do("the key Tab", chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(`(() => { `+name+` return name(document.activeElement); })()`, &now))
		seen = append(seen, now)
	}
	for _, control := range wanted {
		if !slices.Contains(seen, control) {
			b.t.Errorf("the key Tab does not lead to %q, but to %q", control, seen)
		}
	}
	return seen
}

// TestLanes shows a sender whose transactions wait for a missing nonce, and finds it by keys alone.
func TestLanes(t *testing.T) {
	c := start(t, "NONCE_GAP_HOLD_MS=240000")
	alice := c.Accounts[0].Address
	b := open(t, c.UI)
	b.view("lanes")
	// All of a burst but one: those before it are executed, and those behind it wait.
	const burst, missing = 48, 21
	var sending sync.WaitGroup
	var hash string // of the one behind the missing one
	for nonce := range uint64(burst) {
		if nonce == missing {
			continue
		}
		raw := c.sign(nonce)
		sending.Go(func() {
			answer, err := c.call("eth_sendRawTransaction", raw)
			if nonce == missing+1 {
				err = errors.Join(err, json.Unmarshal(answer, &hash))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	b.until(fmt.Sprintf("waits for %d", missing), "nobody", "kept", "4 min", fmt.Sprintf("%d transactions wait", burst-missing-1))
	b.accessible("lanes")
	if order := b.tab(); !slices.Contains(order, "order") || !slices.Contains(order, "wanted") || !slices.Contains(order, "#/lanes") {
		t.Errorf("the key Tab leads to %q", order)
	}
	b.do("the order is switched off by keys", chromedp.Evaluate(`window.confirm = () => true; document.querySelector('[data-key=order]').focus(); 0`, nil), chromedp.KeyEvent(kb.Enter))
	b.until("not kept")
	b.do("on again", chromedp.Click(`//button[text()="Keep the order"]`))
	b.until("Stop keeping the order")

	if _, err := c.call("eth_sendRawTransaction", c.sign(missing)); err != nil {
		t.Error(err)
	}
	sending.Wait()
	b.until("No transaction is on its way.")
	b.view("tx/" + hash)
	b.until("Timeline", "longest")
	var longest string
	b.do("what took longest", chromedp.Evaluate(`[...document.querySelectorAll('.timeline li')].filter((part) => part.innerText.includes('longest')).map((part) => part.innerText).join()`, &longest))
	if !strings.HasPrefix(longest, "waiting in line") {
		t.Errorf("the longest is %q", longest)
	}
	b.do("a search by keys", input.DispatchKeyEvent(input.KeyRawDown).WithKey("/"), chromedp.KeyEvent(alice), chromedp.KeyEvent(kb.Enter))
	b.until("Account", "Nonce", fmt.Sprint(burst))
	harness.Until(t, harness.StartLimit, "the focus is at what was found", func() bool {
		var focus string
		b.do("where the focus is", chromedp.Evaluate(`document.activeElement.id`, &focus))
		return focus == "main"
	})
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

// TestBurst draws a burst in its lane, box by box, finds a transaction by its box, and plays the minute again.
func TestBurst(t *testing.T) {
	c := start(t)
	b := open(t, c.UI)
	b.view("lanes")
	const burst = 120
	raws := make([]string, burst)
	for i := range raws {
		raws[i] = c.sign(uint64(i))
	}
	rand.Shuffle(burst, func(i, j int) { raws[i], raws[j] = raws[j], raws[i] })
	var sending sync.WaitGroup
	for _, raw := range raws {
		sending.Go(func() {
			if _, err := c.call("eth_sendRawTransaction", raw); err != nil {
				t.Error(err)
			}
		})
	}
	sending.Wait()
	b.until("No transaction is on its way. These were the last.", fmt.Sprintf("%d executed", burst))
	var boxes int
	if b.do("the boxes", chromedp.Evaluate(`document.querySelectorAll('.boxes a.executed').length`, &boxes)); boxes != burst {
		t.Errorf("%d boxes, want %d", boxes, burst)
	}
	b.accessible("burst")
	b.do("the replay", chromedp.SetValue("#moment", "0", chromedp.ByQuery), chromedp.Evaluate(`document.getElementById('moment').dispatchEvent(new Event('input')); 0`, nil))
	b.until("Back to now", "s before that")
	b.do("back", chromedp.Click(`//button[text()="Back to now"]`))
	b.until(fmt.Sprintf("%d executed", burst))
	b.do("a box", chromedp.Click(`//ol//a[text()="7"]`))
	b.until("Transaction", "executed", "with nonce 7", "Timeline", "longest")
}

// TestThousands has five thousand transactions in view, in the lanes and in the list of all. What the page makes of them is bounded, so
// that it does not lag: some thousand boxes in the lanes, and in the list only the rows in sight.
func TestThousands(t *testing.T) {
	c := start(t)
	b := open(t, c.UI)
	b.view("lanes")
	b.do("a watch for slow tasks", chromedp.Evaluate(`window.slow = []; new PerformanceObserver((l) => l.getEntries().forEach((e) => e.duration > 200 && slow.push(Math.round(e.duration)))).observe({ type: 'longtask' }); 0`, nil))
	const senders, each, batch = 20, 250, 50
	var sending sync.WaitGroup
	for account := range senders {
		sending.Go(func() {
			for first := 0; first < each; first += batch {
				var calls []string
				for nonce := first; nonce < first+batch; nonce++ {
					calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_sendRawTransaction","params":["%s"]}`, nonce, c.signBy(account, uint64(nonce))))
				}
				answer, err := http.Post(c.RPC, "application/json", strings.NewReader("["+strings.Join(calls, ",")+"]")) //nolint:noctx // of our own relay
				if err != nil {
					t.Error(err)
					return
				}
				text, err := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				if n := strings.Count(string(text), `"result":"0x`); err != nil || n != batch {
					t.Errorf("%d of %d were taken: %v %.300s", n, batch, err, text)
					return
				}
			}
		})
	}
	sending.Wait()
	bounded := func(where string, most int) {
		var elements int
		var slow []int
		b.do("what the page has", chromedp.Evaluate(`document.querySelectorAll('*').length`, &elements), chromedp.Evaluate(`slow.splice(0)`, &slow))
		// How long a task takes is the machine's affair, too, so it is told and not judged.
		t.Logf("%s: %d elements; tasks of more than 200 ms: %v", where, elements, slow)
		if elements > most {
			t.Errorf("%s has %d elements, want no more than %d", where, elements, most)
		}
	}
	b.until("No transaction is on its way. These were the last.", "executed")
	bounded("the lanes", 3*senders*120) // an entry of a list with a link for each of the 120 boxes of a lane, and the frame
	b.view("transactions")
	var rows []int
	harness.Until(t, harness.StartLimit, "the end of the list is reached by scrolling", func() bool {
		b.do("scrolling", chromedp.Evaluate(`(() => { const list = document.querySelector('.windowed'); list.scrollTop = list.scrollHeight;
			return [list.querySelectorAll('tbody tr').length, Math.round(list.scrollHeight / 33)]; })()`, &rows))
		return rows[1] >= senders*each
	})
	if rows[0] > 80 {
		t.Errorf("the list of %d has %d rows in the page", rows[1], rows[0])
	}
	bounded("the list", 1500)
}

// TestServe looks at the page of a relay on a network, which is behind the address and the token of its operator, while
// a transaction has the turn and waits for a network that stands still.
func TestServe(t *testing.T) {
	network := harness.Command{Name: "devnet", Args: []string{"devnet", "--json", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0"}}.Start(t)
	var ready struct {
		Mirror, Consensus string
		Accounts          []struct{ Address, PrivateKey string }
	}
	network.ReadReady(&ready)
	settings := append(harness.Patient(), "CHAIN_ID=298", `HEDERA_NETWORK={"`+ready.Consensus+`":"0.0.3"}`, "MIRROR_NODE_URL="+ready.Mirror,
		"OPERATOR_ID_MAIN=0.0.1002", "OPERATOR_KEY_FORMAT=HEX_ECDSA", "OPERATOR_KEY_MAIN=0x105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524",
		"SERVER_HOST=127.0.0.1", "SERVER_PORT=0", "ENABLE_NONCE_ORDERING=true", "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_TOKEN=sesame", "PRETTY_LOGS_ENABLED=false")
	address, _, admin := harness.Command{Name: "serve", Settings: settings, Args: []string{"serve"}}.Start(t).Addresses()
	c := &chain{t: t, RPC: "http://" + address, UI: "http://" + admin + "/ui/", Accounts: ready.Accounts[2:]}

	for path, want := range map[string]int{"": http.StatusOK, "about": http.StatusOK, "events": http.StatusUnauthorized, "../locks": http.StatusUnauthorized} {
		answer, err := http.Get(c.UI + path) //nolint:noctx // of our own relay
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != want || strings.Contains(string(text), "lanes\":") {
			t.Errorf("without the token, %q: %d %s %v", path, answer.StatusCode, text, err)
		}
	}

	b := open(t, c.UI)
	b.do("the page", chromedp.Navigate(b.base))
	b.until("ADMIN_TOKEN")
	b.do("the token", chromedp.SendKeys("#field-token", "sesame"+kb.Enter, chromedp.ByQuery))
	b.until("Lanes", "No transaction is on its way.")
	var menu []string
	b.do("the menu", chromedp.Evaluate(`[...document.querySelectorAll('#views a')].map((a) => a.innerText)`, &menu))
	if want := []string{"Lanes", "Blocks", "Charts", "Methods", "Upstreams", "ABI"}; !slices.Equal(menu, want) {
		t.Errorf("the menu has %q, want %q", menu, want)
	}

	must.Get(c.call("eth_sendRawTransaction", c.sign(0)))(t)
	network.Freeze()
	done, raw := make(chan error, 1), c.sign(1)
	go func() {
		_, err := c.call("eth_sendRawTransaction", raw)
		done <- err
	}()
	b.until("here, nonce 1", "End the turn")
	harness.Until(t, harness.StartLimit, "the box of the holder is marked", func() bool {
		var marked string
		b.do("the boxes", chromedp.Evaluate(`document.querySelector('.boxes .holding, .boxes .node')?.innerText ?? ''`, &marked))
		return marked == "1"
	})
	b.accessible("lanes-holder")
	network.Thaw()
	if err := <-done; err != nil {
		t.Error(err)
	}
	b.until("No transaction is on its way.")
}

// Each view that is checked has its picture in docs/ui, and no picture is left of one that is gone.
func TestPictures(t *testing.T) {
	if *update {
		t.Skip("other tests make the pictures")
	}
	sources := must.Get(filepath.Glob("*_test.go"))(t)
	var want []string
	for _, source := range sources {
		text := must.Get(os.ReadFile(source))(t)
		for _, m := range regexp.MustCompile(`\.accessible\("([\w-]+)"\)`).FindAllStringSubmatch(string(text), -1) {
			for _, shown := range []string{"light", "dark", "phone-light", "phone-dark"} {
				want = append(want, m[1]+"-"+shown+".webp")
			}
		}
	}
	pictures := must.Get(filepath.Glob(filepath.Join("..", "..", "docs", "ui", "*")))(t)
	var got []string
	for _, picture := range pictures {
		got = append(got, filepath.Base(picture))
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 20 || !slices.Equal(got, want) {
		t.Errorf("docs/ui has %q, want %q (go test ./e2e/ui -update makes them)", got, want)
	}
}
