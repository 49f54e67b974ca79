package txm_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"lockstep/devnet"
	"lockstep/devnet/ledger"
	"lockstep/e2e/harness"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/txmgr"
	"lockstep/txmgr/chaintest"
	"lockstep/watch/watchtest"
)

// TestCommands operates the signers of a running manager by `lockstep txm`: a signer whose nonces somebody else has used before the
// ledger knew it halts, and goes on after them with `reconcile --adopt`; `drain` keeps what is accepted later until `resume`.
func TestCommands(t *testing.T) {
	t.Parallel()
	chain := startAnvil(t, "--no-mining")
	account := strings.ToLower(keyOf(devKeys[0]).Account())
	chain.call("eth_sendTransaction", nil, map[string]any{"from": account, "to": account, "nonce": "0x0", "gas": "0x5208", "gasPrice": "0x2540be400"})
	url := fmt.Sprintf("http://127.0.0.1:%d", proctest.FreePort(t))
	dir := t.TempDir()
	program := func(args ...string) *exec.Cmd {
		cmd := exec.Command(harness.Program(t), append([]string{"txm"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(harness.Environment(), "DATABASE_URL=sqlite:ledger.db", "TXM_CHAINS=31337="+chain.url, "RELAYER_PRIVATE_KEYS="+devKeys[0],
			"INSTANCE_ID=one", "TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS="+strings.TrimPrefix(url, "http://"))
		return cmd
	}
	made := must.Get(program("key", "--role", "admin", "--label", "ops").Output())(t)
	token := strings.TrimSpace(string(made))
	harness.Run(t, program())
	until(t, "the manager is ready", func() bool { return ask("GET", url+"/health/readiness", "", "", nil) == 200 })
	// lockstep runs a command that asks the manager, and returns all that it wrote.
	lockstep := func(args ...string) (string, error) {
		cmd := program(append(args, "--url", url)...)
		cmd.Env = append(cmd.Env, "TXM_API_KEY="+token)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(want string, args ...string) {
		t.Helper()
		if out, err := lockstep(args...); err != nil || !strings.Contains(out, want) || !strings.Contains(out, account) {
			t.Fatalf("%v: %v, and %q is not in:\n%s", args, err, want, out)
		}
	}
	if out, err := program("signers", "--url", url).CombinedOutput(); err == nil || bytes.Contains(out, []byte(account)) || !bytes.Contains(out, []byte("TXM_API_KEY")) {
		t.Errorf("without a key: %v\n%s", err, out)
	}
	until(t, "the signer is halted", func() bool {
		out, err := lockstep("signers")
		return err == nil && strings.Contains(out, "halted: ")
	})
	must("halted: ", "signers")
	must("ready", "reconcile", "--adopt", "31337", account)
	must("draining", "drain", "31337", account)

	client := func(method, path, body string, into any) int {
		return askWith(http.Header{"Authorization": {"Bearer " + token}}, method, url+path, body, into)
	}
	var accepted struct{ ID string }
	if status := client("POST", "/v1/transactions", `{"chain":31337,"to":"`+counter+`","data":"0x01","gas":60000,"simulate":"off"}`, &accepted); status != 202 {
		t.Fatalf("an intent while the signer is drained: %d", status)
	}
	var kept struct{ Status string }
	for range 3 { // the owner looks at its queue now and then
		must("draining", "signers")
		if status := client("GET", "/v1/transactions/"+accepted.ID, "", &kept); status != 200 || kept.Status != "accepted" {
			t.Errorf("while the signer is drained the intent is %q: %d", kept.Status, status)
		}
	}
	must("ready", "resume", "31337", account)
	until(t, "the intent is mined", func() bool {
		chain.mine(1)
		return client("GET", "/v1/transactions/"+accepted.ID, "", &kept) == 200 && kept.Status == "confirmed"
	})

	out, err := lockstep("signers", "--json")
	var list []struct {
		Address   string
		NextNonce uint64
	}
	if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list) != 1 || list[0].Address != account || list[0].NextNonce != 2 {
		t.Errorf("signers --json: %v\n%s", err, out)
	}
	if out, err := lockstep("drain", "31337", "0xabc"); err == nil {
		t.Errorf("a signer that is none was drained:\n%s", out)
	}
}

// TestReload gives a running manager keys that its settings did not have, by SIGHUP, and takes one away by a call: the new signer serves, what the other
// has signed is followed, and what is broken in the settings changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	chain := startAnvil(t, "--no-mining")
	keys := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(keys, []byte(text), 0o600))
	}
	write(devKeys[0])
	url := fmt.Sprintf("http://127.0.0.1:%d", proctest.FreePort(t))
	cmd := exec.Command(harness.Program(t), "txm")
	cmd.Dir = t.TempDir()
	cmd.Env = append(harness.Environment(), "DATABASE_URL=memory:", "TXM_CHAINS=31337="+chain.url, "RELAYER_PRIVATE_KEYS_FILE="+keys, "INSTANCE_ID=one",
		"TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS="+strings.TrimPrefix(url, "http://"))
	harness.Run(t, cmd)
	states := func() (list []string) {
		var found struct {
			Signers []struct{ Address, PassedOver string }
		}
		if ask("GET", url+"/v1/signers", "", "", &found) != 200 {
			return nil
		}
		for _, s := range found.Signers {
			list = append(list, strings.ToLower(s.Address)+" "+s.PassedOver)
		}
		slices.Sort(list)
		return list
	}
	first, second := strings.ToLower(keyOf(devKeys[0]).Account()), strings.ToLower(keyOf(devKeys[1]).Account())
	are := func(what string, want ...string) {
		t.Helper()
		slices.Sort(want)
		until(t, what, func() bool { return slices.Equal(states(), want) })
	}
	send := func(pin, status string) (id string) {
		t.Helper()
		var got struct{ ID, Status, Signer string }
		body := fmt.Sprintf(`{"chain":31337,"to":%q,"data":"0x01","gas":60000,"simulate":"off","pin":%q}`, counter, pin)
		if code := ask("POST", url+"/v1/transactions", body, "", &got); code != 202 {
			t.Fatalf("an intent: %d", code)
		}
		until(t, "the intent is "+status, func() bool {
			return ask("GET", url+"/v1/transactions/"+got.ID, "", "", &got) == 200 && got.Status == status
		})
		return got.ID
	}
	are("one signer works", first+" ")
	followed := send(first, "broadcast")

	write(devKeys[0] + "," + devKeys[1])
	must.Do(t, cmd.Process.Signal(syscall.SIGHUP))
	are("both work", first+" ", second+" ")
	send(second, "broadcast")

	write("no key")
	if code := ask("POST", url+"/v1/reload", "", "", nil); code/100 == 2 {
		t.Errorf("broken settings were taken: %d", code)
	}
	are("nothing has changed", first+" ", second+" ")
	write(devKeys[1])
	if code := ask("POST", url+"/v1/reload", "", "", nil); code/100 != 2 {
		t.Errorf("good settings were not taken: %d", code)
	}
	are("one has left", first+" absent: no process that runs has its key", second+" ")
	var got struct{ Status string }
	until(t, "what the one that left has signed is confirmed", func() bool {
		chain.mine(1)
		return ask("GET", url+"/v1/transactions/"+followed, "", "", &got) == 200 && got.Status == "confirmed"
	})
}

const (
	reverting     = "0x52000000000000000000000000000000000bad01"
	revertingCode = "0x60006000fd" // REVERT
	receiver      = "0x5200000000000000000000000000000000000f01"
)

// TestContract holds every driver against the contract of txmgr.Chain, on a real chain of its own.
func TestContract(t *testing.T) {
	t.Parallel()
	garbage := []string{"0x", "alice", "0x12", "0.0.x", receiver + "00", "0xZZ00000000000000000000000000000000000f01"}
	t.Run("ethchain", func(t *testing.T) {
		chain := startAnvil(t)
		chain.call("anvil_setCode", nil, reverting, revertingCode)
		open := func(url string) txmNode { return txmNode{Chain: 31337, URLs: []string{url}, Timeout: time.Minute} }
		alive := must.Get(open(chain.url).open(nil))(t)
		dead := must.Get(open("http://127.0.0.1:1").open(nil))(t)
		chaintest.Run(t, chaintest.Harness{
			Chain: alive, Dead: dead, Key: keyOf(newKey(t, chain)), Stranger: keyOf(devKeys[3]), To: receiver, Value: big.NewInt(1_000_000), Reverting: reverting,
			Garbage: garbage, Mine: func() { chain.mine(1) },
		})
	})
	t.Run("ethchain without a pool", func(t *testing.T) {
		h := startHedera(t, devnet.Config{ConsensusLatency: 50 * time.Millisecond, Nodes: 2, Signers: 2, BlockTime: 200 * time.Millisecond})
		h.reverts()
		chaintest.Run(t, h.harness(h.through(h.node(""), h.relay()), "http://127.0.0.1:1", garbage))
	})
	t.Run("hederachain", func(t *testing.T) {
		h := startHedera(t, devnet.Config{ConsensusLatency: 50 * time.Millisecond, Nodes: 2, Signers: 2, BlockTime: 200 * time.Millisecond})
		h.reverts()
		chaintest.Run(t, h.harness(h.node(""), "http://127.0.0.1:1", garbage))
	})
}

// reverts puts a contract there that fails every call.
func (h *hederanet) reverts() {
	h.t.Helper()
	code := hexutil.MustDecode(revertingCode)
	must.Do(h.t, h.Ledger().Edit(ledger.Edit{Address: common.HexToAddress(reverting), Code: &code}))
}

// harness opens a node's driver for the contract, and the same driver on nobody's address.
func (h *hederanet) harness(n txmNode, nobody string, garbage []string) chaintest.Harness {
	h.t.Helper()
	log := slog.New(slog.DiscardHandler)
	lost := n
	n.Timeout = time.Minute // an offer has to be answered, however slow the machine is
	alive := must.Get(n.open(log))(h.t)
	until(h.t, "the mirror node shows the contract", func() bool {
		tried, err := alive.Simulate(h.t.Context(), txmgr.Call{From: keyOf(n.Keys[0]).Account(), To: reverting, Value: new(big.Int), Data: []byte{1}})
		return err == nil && !tried.Success
	})
	lost.URLs = []string{nobody}
	if lost.Network != "" {
		lost.Network = `{"127.0.0.1:1":"0.0.3"}`
	}
	dead := must.Get(lost.open(log))(h.t)
	return chaintest.Harness{
		Chain: alive, Dead: dead, Key: keyOf(n.Keys[0]), Stranger: keyOf(n.Keys[1]), To: keyOf(n.Keys[1]).Account(), Reverting: reverting,
		Value: big.NewInt(5 * hedera.WeibarPerTinybar), Garbage: garbage, Mine: func() {},
	}
}

// TestReasonOfARevert: a transaction that failed on chain tells why, in the words of the errors that its caller declared.
func TestReasonOfARevert(t *testing.T) {
	t.Parallel()
	c, chain := alone(t, nil)
	// Memory has the selector, 1 and 2, and REVERT returns them.
	selector := hex.EncodeToString(crypto.Keccak256([]byte("Short(uint256,uint256)"))[:4])
	chain.call("anvil_setCode", nil, reverting, "0x63"+selector+"60e01b60005260016004526002602452604460"+"00fd")
	sent := func(to, abi string) *txmgr.Transaction {
		id := c.must(func(r *txmgr.Request) {
			r.To, r.Data, r.Simulate, r.Gas, r.Calling = to, []byte{1}, "off", 100_000, &txmgr.Calling{ABI: json.RawMessage(abi)}
		}).ID
		return c.reaches(id, txmgr.StatusReverted)
	}
	named := sent(reverting, `["error Short(uint256 have,uint256 want)"]`)
	if named.Receipt.Reason != "Short(have=1, want=2)" || !strings.HasSuffix(named.Message, "failed: Short(have=1, want=2)") {
		t.Errorf("receipt %+v, error %+v", named.Receipt, named.Failure)
	}
	if n := c.count("SELECT count(*) FROM outbox WHERE subject = $1 AND kind = 'tx.reverted' AND body LIKE '%Short(have=1, want=2)%'", named.ID); n != 1 { // what webhooks and streams tell
		t.Errorf("%d events say why", n)
	}
	if raw := sent(reverting, `[]`); !strings.Contains(raw.Message, "0x"+selector) {
		t.Errorf("without a declaration: %+v", raw.Failure)
	}
	const endless = "0x52000000000000000000000000000000000bad02"
	chain.call("anvil_setCode", nil, endless, "0x5b600056")
	if out := sent(endless, ""); !strings.Contains(out.Message, "it used all of its gas, 100000") {
		t.Errorf("an endless loop: %+v", out.Failure)
	}
}

// TestDelegation: a transaction with an authorization (EIP-7702) makes an account run a contract's code, and the next call to the account
// is answered by that code. The manager pays; the account has signed its authorization only.
func TestDelegation(t *testing.T) {
	t.Parallel()
	c, chain := alone(t, nil, "--hardfork", "prague", "--mixed-mining", "--block-time", "1")
	// It returns 7 for whatever it is asked.
	contract := common.HexToAddress("0x5200000000000000000000000000000000007702")
	chain.call("anvil_setCode", nil, contract.Hex(), "0x600760005260206000f3")
	authority := must.Get(crypto.GenerateKey())(t)
	account := crypto.PubkeyToAddress(authority.PublicKey).Hex()
	signed := must.Get(types.SignSetCode(authority, types.SetCodeAuthorization{ChainID: *uint256.NewInt(31337), Address: contract}))(t)
	list := must.Get(json.Marshal([]types.SetCodeAuthorization{signed}))(t)
	sent := c.reaches(c.must(func(r *txmgr.Request) { r.To, r.Data, r.Extra = account, nil, txmgr.Extra{Authorizations: list} }).ID, txmgr.StatusConfirmed)
	var code, answer hexutil.Bytes
	chain.call("eth_getCode", &code, account, "latest")
	chain.call("eth_call", &answer, map[string]any{"to": account}, "latest")
	if want := append([]byte{0xef, 0x01, 0x00}, contract.Bytes()...); !bytes.Equal(code, want) || len(answer) != 32 || answer[31] != 7 {
		t.Errorf("the account has the code %s and answers %s", code, answer)
	}
	var tx struct {
		Type          hexutil.Uint64
		Authorization []json.RawMessage `json:"authorizationList"`
	}
	chain.call("eth_getTransactionByHash", &tx, sent.Hash)
	if tx.Type != types.SetCodeTxType || len(tx.Authorization) != 1 {
		t.Errorf("sent as %+v", tx)
	}
}

// alone is one node on SQLite and a chain, with a caller.
func alone(t testing.TB, change func(*txmNode), args ...string) (*caller, *anvil) {
	t.Helper()
	chain := startAnvil(t, args...)
	n := txmNode{
		Ledger: fmt.Sprintf("sqlite:%s/ledger.db", t.TempDir()), Chain: 31337, URLs: []string{chain.url}, Keys: devKeys[:1],
		Resend: time.Second, Reconcile: time.Second,
	}
	if change != nil {
		change(&n)
	}
	c := newCaller(t, n)
	n.Instance = "node"
	n.start(t)
	return c, chain
}

func (c *caller) must(change ...func(*txmgr.Request)) *txmgr.Intent {
	c.t.Helper()
	return must.Get(c.submit(change...))(c.t)
}

func (c *caller) reaches(id string, want txmgr.Status) *txmgr.Transaction {
	c.t.Helper()
	until(c.t, "intent "+id+" is "+string(want), func() bool { return c.get(id).Status == want })
	return c.get(id)
}

func (a *anvil) mine(blocks int) { a.call("anvil_mine", nil, fmt.Sprintf("0x%x", blocks)) }

// TestBump sticks the head of the line by its fees, on go-ethereum's own pool, which takes a replacement only if both fields rise by a tenth; anvil
// takes any. The same nonce is signed again for an eighth more, again and again, and one of all is mined.
func TestBump(t *testing.T) {
	t.Parallel()
	backend, host := watchtest.Node(t, types.GenesisAlloc{
		common.HexToAddress(keyOf(devKeys[0]).Account()): {Balance: new(big.Int).Lsh(big.NewInt(1), 80)},
		common.HexToAddress(counter):                     {Code: hexutil.MustDecode(counterCode), Balance: new(big.Int)},
	})
	url := "http://" + host
	backend.Commit()
	n := txmNode{
		Ledger: fmt.Sprintf("sqlite:%s/ledger.db", t.TempDir()), Chain: 1337, URLs: []string{url}, Keys: devKeys[:1],
		Instance: "node", Bump: time.Second, Cancel: time.Hour,
	}
	c := newCaller(t, n)
	n.start(t)
	i := c.must(func(r *txmgr.Request) { r.MaxTip = big.NewInt(1); r.MaxFee = new(big.Int).SetUint64(50_000_000_000) })
	until(t, "geth has taken three attempts", func() bool {
		return c.count("SELECT count(*) FROM attempts WHERE state = 'sent'") >= 3
	})
	if refused := c.count("SELECT count(*) FROM attempts WHERE error_class = 'slot_taken'"); refused != 0 {
		t.Errorf("geth refused %d replacements as underpriced", refused)
	}
	list := c.get(i.ID).Attempts
	for n := 1; n < len(list); n++ {
		for _, pair := range [][2]*big.Int{{list[n-1].Fees.Max, list[n].Fees.Max}, {list[n-1].Fees.Tip, list[n].Fees.Tip}} {
			least := new(big.Int).Mul(pair[0], big.NewInt(9))
			if new(big.Int).Mul(pair[1], big.NewInt(8)).Cmp(least) < 0 {
				t.Errorf("a replacement pays %s after %s: less than an eighth more", pair[1], pair[0])
			}
		}
		if list[n].Nonce != list[0].Nonce {
			t.Errorf("a replacement has nonce %d, not %d", list[n].Nonce, list[0].Nonce)
		}
	}
	until(t, "it is mined", func() bool {
		backend.Commit()
		return c.get(i.ID).Status == txmgr.StatusConfirmed
	})
	c.settled()
	c.audit(url)
}

// TestReorg takes three blocks away: what was mined in them is sent again, as the same bytes.
func TestReorg(t *testing.T) {
	t.Parallel()
	c, chain := alone(t, func(n *txmNode) { n.Depth = 6 }, "--no-mining")
	chain.mine(1)
	c.many(5)
	until(t, "all are in the pool", func() bool { return c.count("SELECT count(*) FROM intents WHERE status = 'broadcast'") == 5 })
	chain.mine(3)
	until(t, "all are mined", func() bool { return c.count("SELECT count(*) FROM intents WHERE status = 'mined'") == 5 })
	chain.call("anvil_reorg", nil, 3, []any{})
	until(t, "all were sent again", func() bool {
		return c.count("SELECT count(DISTINCT subject) FROM outbox WHERE kind = 'tx.broadcast' AND body LIKE '%reorganised%'") == 5
	})
	until(t, "all are in the pool again", func() bool {
		chain.mine(1)
		return c.count("SELECT count(*) FROM intents WHERE status = 'mined' OR final") == 5
	})
	chain.mine(10)
	c.settled()
	c.audit(chain.url)
	c.sameBytes()
}
