package app_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"

	"lockstep/app"
	"lockstep/devnet"
	"lockstep/e2e/harness"
	"lockstep/internal/redistest"
)

const generous = 2 * time.Minute // only says that something is stuck

// relayOn runs a relay on a network. Transactions above the network's gas limit pass its
// prechecks, since they are what costs the operator something: the network refuses them
// and charges it for 21,000 gas at 71 tinybars.
func relayOn(t *testing.T, network *devnet.Network, more ...string) *app.App {
	t.Helper()
	nodes, err := json.Marshal(network.Nodes())
	if err != nil {
		t.Fatal(err)
	}
	return start(t, append([]string{
		"HEDERA_NETWORK=" + string(nodes), "MIRROR_NODE_URL=" + network.Mirror(), "RELAY_PROFILE=ethereum",
		"OPERATOR_ID_MAIN=" + devnet.OperatorID(), "OPERATOR_KEY_MAIN=" + devnet.OperatorKey(),
		"MAX_TRANSACTION_GAS_LIMIT=20000000", "HBAR_SPENDING_PLANS_CONFIG=[]",
	}, more...)...)
}

const refusalFee = 21_000 * 71 // tinybars, for a transaction that is too large

// wallet signs with one funded account of a network.
type wallet struct {
	t     *testing.T
	keyOf string
	nonce uint64
	poor  bool // it offers nothing for gas
	value *big.Int
}

func (w *wallet) offer() *big.Int {
	if w.poor {
		return new(big.Int)
	}
	return big.NewInt(1_000_000_000_000)
}

func (w *wallet) amount() *big.Int {
	if w.value != nil {
		return w.value
	}
	return big.NewInt(1e10)
}

// send sends a transaction and returns the error code of the answer, 0 for none.
func (w *wallet) send(relay *app.App, gas uint64, headers ...string) int {
	w.t.Helper()
	key, err := crypto.HexToECDSA(w.keyOf)
	if err != nil {
		w.t.Fatal(err)
	}
	to := common.HexToAddress("0x05FbA803Be258049A27B820088bab1cAD2058871")
	raw, err := types.MustSignNewTx(key, types.LatestSignerForChainID(big.NewInt(298)), &types.DynamicFeeTx{
		ChainID: big.NewInt(298), Nonce: w.nonce, Gas: gas, GasFeeCap: w.offer(), To: &to, Value: w.amount(),
	}).MarshalBinary()
	if err != nil {
		w.t.Fatal(err)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":[%q]}`, hexutil.Encode(raw))
	_, answer := ask(w.t, http.MethodPost, "http://"+relay.HTTPAddr(), body, headers...)
	var reply struct {
		Error struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(answer), &reply); err != nil {
		w.t.Fatalf("%s: %v", answer, err)
	}
	if reply.Error.Code == 0 {
		w.nonce++
	}
	return reply.Error.Code
}

// Answers to send.
const (
	fine       = 0
	rejected   = -32003
	overBudget = -32606
)

const (
	ordinary = 21_000
	tooLarge = 16_000_000
)

// metric reads a sample, by its name with labels; 0 when there is none.
func metric(t *testing.T, relay *app.App, name string) float64 {
	t.Helper()
	_, page := ask(t, http.MethodGet, "http://"+relay.HTTPAddr()+"/metrics", "")
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(page)
	if line == nil {
		return 0
	}
	value, err := strconv.ParseFloat(line[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(generous); !condition(); <-ticker.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// oneWindow is a length of a window that hardly ever ends while a test runs.
const oneWindow = "HBAR_RATE_LIMIT_DURATION=31000000000"

// What the network charged the operator counts, through whichever relay it was. When the
// budget has run out nothing is sent any more, through any of them.
func TestBudgetOfAFleet(t *testing.T) {
	network, server := harness.Network(t, devnet.Config{}), redistest.Start(t)
	settings := []string{
		"HBAR_RATE_LIMIT_TINYBAR=" + strconv.Itoa(2*refusalFee), "HBAR_RATE_LIMIT_BASIC=" + strconv.Itoa(2*refusalFee), oneWindow,
		"REDIS_ENABLED=true", "REDIS_URL=" + server.URL(),
	}
	one, two := relayOn(t, network, settings...), relayOn(t, network, settings...)
	alice := &wallet{t: t, keyOf: network.Accounts()[1].PrivateKey[2:]}
	bob := &wallet{t: t, keyOf: network.Accounts()[2].PrivateKey[2:]}
	codes := []int{alice.send(one, ordinary), alice.send(one, tooLarge), bob.send(two, tooLarge)}
	look := server.Client()
	eventually(t, "the network's charges are known", func() bool {
		books, err := look.Keys(t.Context(), "hbarlimit:*:spent").Result()
		return err == nil && len(books) == 1 && look.HGet(t.Context(), books[0], "total").Val() == strconv.Itoa(2*refusalFee)
	})
	codes = append(codes, alice.send(one, ordinary), bob.send(two, ordinary))
	if diff := cmp.Diff([]int{fine, rejected, rejected, overBudget, overBudget}, codes); diff != "" {
		t.Errorf("answers (-want +got)\n%s", diff)
	}
	for _, relay := range []*app.App{one, two} {
		if refused := metric(t, relay, `rpc_relay_hbar_rate_limit{methodName="eth_sendRawTransaction",mode="TRANSACTION"}`); refused != 1 {
			t.Errorf("%v refusals are counted", refused)
		}
	}
}

// What was set aside for transactions that came to nothing, or cost nothing, is free
// again.
func TestBudgetIsGivenBack(t *testing.T) {
	t.Parallel()
	network := harness.Network(t, devnet.Config{})
	// Room for one reservation at a time, and no more.
	relay := relayOn(t, network, "HBAR_RATE_LIMIT_TINYBAR=100000", oneWindow)
	alice := &wallet{t: t, keyOf: network.Accounts()[1].PrivateKey[2:]}
	remaining := func() bool { return metric(t, relay, "rpc_relay_hbar_rate_remaining") == 100_000 }
	for range 3 {
		if code := alice.send(relay, ordinary); code != fine {
			t.Fatalf("executed: %d", code)
		}
		eventually(t, "it turns out to have cost nothing", remaining)
	}
	alice.nonce += 5
	if code := alice.send(relay, ordinary); code != rejected && code != -32000 {
		t.Fatalf("wrong nonce: %d", code)
	}
	eventually(t, "the network charges for a wrong nonce", func() bool { return metric(t, relay, "rpc_relay_hbar_rate_remaining") == 0 })
	if limited := metric(t, relay, "rpc_relay_hbar_rate_total_limit"); limited != 100_000 {
		t.Errorf("the limit is shown as %v", limited)
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

// Gas that the operator gives counts to the tinybar, and is set aside beforehand: what one
// transaction may take is not given twice.
func TestBudgetOfGivenGas(t *testing.T) {
	network := harness.Network(t, devnet.Config{})
	const gift = 21_000 * 71
	relay := relayOn(t, network, "HBAR_RATE_LIMIT_TINYBAR="+strconv.Itoa(2*gift), oneWindow,
		"PAYMASTER_ENABLED=true", `PAYMASTER_WHITELIST=["*"]`, "MAX_GAS_ALLOWANCE_HBAR=1")
	alice := &wallet{t: t, keyOf: network.Accounts()[1].PrivateKey[2:], poor: true}
	if code := alice.send(relay, 2*ordinary); code != overBudget {
		t.Errorf("gas for more than there is: %d", code)
	}
	if code := alice.send(relay, ordinary); code != fine {
		t.Fatalf("gas within the budget: %d", code)
	}
	eventually(t, "the gift is charged", func() bool {
		return metric(t, relay, "rpc_relay_hbar_rate_remaining") == gift
	})
	if spent := metric(t, relay, "average_spending_plan_amount_spent_gauge_basic"); spent != gift {
		t.Errorf("the sender's plan is charged %v", spent)
	}
	if code := alice.send(relay, ordinary); code != overBudget { // the envelope's cost is set aside, too
		t.Errorf("gas for all that is left: %d", code)
	}
}
