package app_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

const refusalFee = 21_000 * 71 // tinybars, for a transaction that is too large

// Answers to code.
const (
	fine       = 0
	rejected   = -32003
	overBudget = -32606
)

const (
	ordinary = 21_000
	tooLarge = 16_000_000
)

// ofOperator are the settings of a relay whose operator does nothing else on the network.
var ofOperator = []string{"OPERATOR_ID_MAIN=" + devnet.OperatorID(), "OPERATOR_KEY_FORMAT=HEX_ECDSA", "OPERATOR_KEY_MAIN=" + devnet.OperatorKey()}

// costly runs a relay whose prechecks pass transactions above the network's gas limit, since they are what costs the
// operator something: the network refuses them and charges it for 21,000 gas at 71 tinybars.
func (w *world) costly(t *testing.T, settings ...string) *relay {
	t.Helper()
	return w.relay(t, slices.Concat(ofOperator, []string{"MAX_TRANSACTION_GAS_LIMIT=20000000", "HBAR_SPENDING_PLANS_CONFIG=[]"}, settings)...)
}

// code sends a transfer and returns the code of the answer.
func (r *relay) code(a *account, nonce, gas uint64, change ...func(*types.DynamicFeeTx)) int {
	r.Helper()
	data := a.pay(nonce)
	data.Gas = gas
	for _, c := range change {
		c(data)
	}
	if got := r.send(a.sign(data)); got.Error != nil {
		return got.Error.Code
	}
	return fine
}

// oneWindow is a length of a window that hardly ever ends while a test runs.
const oneWindow = "HBAR_RATE_LIMIT_DURATION=31000000000"

// What the network charged the operator counts, through whichever relay it was. When the
// budget has run out nothing is sent any more, through any of them.
func TestBudgetOfAFleet(t *testing.T) {
	w, server := newWorld(t), redistest.Start(t)
	settings := []string{
		"HBAR_RATE_LIMIT_TINYBAR=" + strconv.Itoa(2*refusalFee), "HBAR_RATE_LIMIT_BASIC=" + strconv.Itoa(2*refusalFee), oneWindow,
		"REDIS_ENABLED=true", "REDIS_URL=" + server.URL(),
	}
	one, two := w.costly(t, settings...), w.costly(t, settings...)
	alice, bob := w.account(t), w.account(t)
	codes := []int{one.code(alice, 0, ordinary), one.code(alice, 1, tooLarge), two.code(bob, 0, tooLarge)}
	look := server.Client()
	must.Until(t, "the network's charges are known", func() bool {
		books, err := look.Keys(t.Context(), "hbarlimit:*:spent").Result()
		return err == nil && len(books) == 1 && look.HGet(t.Context(), books[0], "total").Val() == strconv.Itoa(2*refusalFee)
	})
	codes = append(codes, one.code(alice, 1, ordinary), two.code(bob, 0, ordinary))
	if diff := cmp.Diff([]int{fine, rejected, rejected, overBudget, overBudget}, codes); diff != "" {
		t.Errorf("answers (-want +got)\n%s", diff)
	}
	for _, r := range []*relay{one, two} {
		if refused := r.scrape()[`rpc_relay_hbar_rate_limit{methodName="eth_sendRawTransaction",mode="TRANSACTION"}`]; refused != 1 {
			t.Errorf("%v refusals are counted", refused)
		}
	}
}

// operatorBalance asks the mirror node what the operator has, in tinybars.
func operatorBalance(t *testing.T, network *devnet.Network) int64 {
	t.Helper()
	_, text := ask(t, http.MethodGet, network.Mirror()+"/api/v1/accounts/"+devnet.OperatorID(), "")
	var account struct{ Balance struct{ Balance int64 } }
	if err := json.Unmarshal([]byte(text), &account); err != nil || account.Balance.Balance == 0 {
		t.Fatalf("%v: %s", err, text)
	}
	return account.Balance.Balance
}

// budgetSince is how many rejections WRONG_NONCE_BUDGET, which is for a minute, has allowed since then.
func budgetSince(began time.Time, budget int64) int64 {
	return budget * (1 + int64(time.Since(began)/time.Minute))
}
