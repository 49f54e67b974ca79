package api_test

import (
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/must"
)

func (w *world) scrape() map[string]float64 { return must.Scrape(w.t, w.get("/metrics").body) }

// A scraper sees what happened to the manager's transactions, in every metric that docs/METRICS.md has of it.
func TestEveryMetricTellsWhatHappened(t *testing.T) {
	const some = -1 // any number above zero
	w := start(t, nil)
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer hook.Close()
	if a := w.post("/v1/webhooks", fmt.Sprintf(`{"url":%q,"events":["tx.confirmed"]}`, hook.URL)); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
	const confirmed = "/v1/transactions?wait=confirmed&timeout=50s"
	for range 2 { // the second one is the first
		w.post(confirmed, pay("1000"), "Idempotency-Key", "order-1").transaction(t)
	}
	w.chain.abroad(t, signerKey, 1, common.HexToAddress(receiver), 1)
	second := w.post(confirmed, pay("1001")).transaction(t)
	second = w.get("/v1/transactions/" + second.ID + "?wait=confirmed&timeout=50s").transaction(t)
	if second.Status != "confirmed" {
		t.Fatalf("%+v", second)
	}
	// The second nonce of an account is used, and the first one is not.
	w.reserve(callerName)
	w.reserve(callerName)
	w.post("/v1/transactions/raw", fmt.Sprintf(`{"chain":1337,"rawTx":%q}`, signedFor(1, 7, 1e11))).transaction(t)
	balance := must.Get(w.chain.Balance(t.Context(), signerName))(t)
	wei, _ := new(big.Float).SetInt(balance).Float64()
	ours, callers := fmt.Sprintf(`{chain="1337",signer=%q}`, signerName), fmt.Sprintf(`{chain="1337",signer=%q}`, callerName)
	expected := map[string]float64{
		"txm_idempotency_hits_total":                                      1,
		`txm_intents_total{chain="1337",origin="api",status="confirmed"}`: 2,
		`txm_invalid_nonce_total{chain="1337"}`:                           some,
		"txm_lease_terms_total":                                           some,
		"txm_lease_wait_seconds_count":                                    some,
		`txm_queue_depth{chain="1337"}`:                                   0,
		`txm_send_errors_total{class="`:                                   some,
		"txm_signer_balance_wei" + ours:                                   wei,
		"txm_signer_enabled" + ours:                                       1,
		"txm_signer_nonce_drift" + ours:                                   0, // it was noticed, and made good
		"txm_signer_nonce_gap" + callers:                                  1,
		"txm_signer_nonce_gap" + ours:                                     0,
		"txm_signer_oldest_pending_seconds" + ours:                        0,
		"txm_signer_owned" + ours:                                         1,
		"txm_signer_pending" + ours:                                       0,
		"txm_signer_pending" + callers:                                    2,
		`txm_stage_seconds_count{stage="broadcast"}`:                      some,
		`txm_stage_seconds_count{stage="mined"}`:                          some,
		`txm_webhook_deliveries_total{result="delivered"}`:                2,
		`txm_webhook_deliveries_total{result="dead"}`:                     0,
	}
	for prefix, want := range expected {
		var got float64
		defer func() {
			if t.Failed() {
				t.Logf("%s is %v, want %v", prefix, got, want)
			}
		}()
		w.until(prefix, func() bool {
			got = 0
			for name, value := range w.scrape() {
				if strings.HasPrefix(name, prefix) {
					got += value
				}
			}
			return got == want || want == some && got > 0
		})
	}
	text := must.Get(os.ReadFile("../../docs/METRICS.md"))(t)
	_, part, _ := strings.Cut(string(text), "\n## The transaction manager\n")
	part, _, _ = strings.Cut(part, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `(txm_\\w+)` \\| ([^|]*) \\|").FindAllStringSubmatch(part, -1)
	if len(rows) < 16 {
		t.Fatalf("docs/METRICS.md has %d metrics of the manager", len(rows))
	}
	labels := map[string]string{}
	for _, row := range rows {
		list := strings.Fields(strings.ReplaceAll(row[2], ",", " "))
		slices.Sort(list)
		labels[row[1]] = strings.Join(list, " ")
		if strings.HasPrefix(row[1], "txm_operator_") {
			continue // only chains of Hedera have an operator; cmd/lockstep tries these
		}
		if !slices.ContainsFunc(slices.Sorted(maps.Keys(expected)), func(series string) bool {
			return strings.HasPrefix(series, row[1]+"{") || series == row[1] || strings.HasPrefix(series, row[1]+"_count")
		}) {
			t.Errorf("nothing is expected of %s", row[1])
		}
	}
	for series := range w.scrape() {
		name, rest, _ := strings.Cut(series, "{")
		for _, suffix := range []string{"_count", "_sum"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && labels[base] != "" || base == "txm_lease_wait_seconds" {
				name = base
			}
		}
		var has []string
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(rest, -1) {
			has = append(has, label[1])
		}
		slices.Sort(has)
		if documented, ok := labels[name]; strings.HasPrefix(name, "txm_") && (!ok || documented != strings.Join(has, " ")) {
			t.Errorf("%s is not as docs/METRICS.md says: %q", series, documented)
		}
	}
}
