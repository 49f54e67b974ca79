package ui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
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
