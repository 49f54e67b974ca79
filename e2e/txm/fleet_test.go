package txm_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/uuid"

	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/proctest"
	"lockstep/txmgr"
	"lockstep/txmgr/sqlstore"
)

// patience bounds every wait of these tests; nothing is asserted about how long a wait takes.
const patience = 6 * time.Minute

func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	within(t, patience, what, holds)
}

func within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	harness.Until(t, limit, what, holds)
}

// start runs a node in a process of its own.
func (n txmNode) start(t testing.TB) *harness.Process {
	t.Helper()
	text := must.Get(json.Marshal(n))(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nodeVariable+"="+string(text))
	return harness.Run(t, cmd)
}

// counter answers every call with an event whose topic is the first word of the call's data.
const (
	counter     = "0x00000000000000000000000000000000000c0de1"
	counterCode = "0x60003560006000a100"
)

// anvil is a chain in a process.
type anvil struct {
	*harness.Process
	t    testing.TB
	port int
	url  string
}

func startAnvil(t testing.TB, args ...string) *anvil {
	t.Helper()
	if len(args) == 0 {
		// At once, and each second: anvil may not see a transaction that arrives while it mines, until the next arrives.
		args = []string{"--mixed-mining", "--block-time", "1"}
	}
	return startAnvilAt(t, proctest.FreePort(t), args...)
}

func startAnvilAt(t testing.TB, port int, args ...string) *anvil {
	t.Helper()
	a := &anvil{t: t, port: port}
	a.Process, a.url = harness.Anvil(t, port, args...)
	a.ready()
	return a
}

func (a *anvil) ready() {
	a.t.Helper()
	until(a.t, "anvil answers", func() bool {
		var id string
		return a.try("eth_chainId", &id) == nil
	})
	a.call("anvil_setCode", nil, counter, counterCode)
}

func (a *anvil) try(method string, into any, params ...any) error {
	return callRPC(a.url, method, into, params...)
}

func (a *anvil) call(method string, into any, params ...any) {
	a.t.Helper()
	if err := a.try(method, into, params...); err != nil {
		a.t.Fatalf("%s: %v", method, err)
	}
}

func callRPC(url, method string, into any, params ...any) error {
	client, err := rpc.Dial(url)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Call(into, method, params...)
}

// ledgers are the databases that every test of a crash runs on.
func ledgers(t *testing.T, test func(t *testing.T, fresh func(*testing.T) string)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") })
	})
	t.Run("postgres", func(t *testing.T) {
		server := pgtest.Start(t)
		test(t, func(*testing.T) string { return server.Database() })
	})
}

// topic is a word of 32 bytes that no other intent has.
func topic() []byte {
	a, b := uuid.New(), uuid.New()
	return append(a[:], b[:]...)
}

// caller submits intents and remembers what each must do.
type caller struct {
	t     testing.TB
	n     txmNode
	m     *txmgr.Manager
	store *sqlstore.Store
	db    *ledger.DB

	mu  sync.Mutex
	ids map[string][]byte // intent → topic
}

func newCaller(t testing.TB, n txmNode) *caller {
	t.Helper()
	n.Instance = "caller"
	m, store, db, err := n.manager(t.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, key := range n.Keys {
		must.Do(t, m.AddSigner(t.Context(), signerOf(key)))
	}
	return &caller{t: t, n: n, m: m, store: store, db: db, ids: map[string][]byte{}}
}

func (c *caller) request(word []byte) txmgr.Request {
	to := counter
	switch {
	case c.n.Network != "" || c.n.Driver == "relay":
		to = hederaCounter
	case c.n.Driver == "near":
		to, word = nearIntent(word)
	}
	return txmgr.Request{Tenant: "t", Chain: fmt.Sprint(c.n.Chain), To: to, Data: word, Gas: 60_000, Simulate: "off"}
}

// submit hands over an intent whose execution leaves one event with a word of its own.
func (c *caller) submit(change ...func(*txmgr.Request)) (*txmgr.Intent, error) {
	r := c.request(topic())
	for _, f := range change {
		f(&r)
	}
	intent, err := c.m.Submit(context.WithoutCancel(c.t.Context()), r)
	if err == nil {
		c.mu.Lock()
		c.ids[intent.ID] = r.Data
		c.mu.Unlock()
	}
	return intent, err
}

// many submits at once from many goroutines.
func (c *caller) many(n int, change ...func(*txmgr.Request)) {
	c.t.Helper()
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			if _, err := c.submit(change...); err != nil {
				c.t.Error(err)
			}
		})
	}
	group.Wait()
}

func (c *caller) get(id string) *txmgr.Transaction {
	c.t.Helper()
	return must.Get(c.m.Get(context.WithoutCancel(c.t.Context()), "", id))(c.t)
}

// settled waits until every intent has its fate for good.
func (c *caller) settled() { c.t.Helper(); c.settledWithin(patience) }

func (c *caller) settledWithin(limit time.Duration) {
	c.t.Helper()
	settled := false
	defer func() {
		if !settled { // the wait has ended the test
			c.t.Logf("left open:\n%s", c.open())
		}
	}()
	within(c.t, limit, "every intent has a fate", func() bool { return c.count("SELECT count(*) FROM intents WHERE NOT final") == 0 })
	within(c.t, limit, "every slot is settled", func() bool { return c.count("SELECT count(*) FROM slots WHERE NOT final AND holder <> 'free'") == 0 })
	settled = true
}

// open says what has no fate yet, and what may keep it from having one, a line each.
func (c *caller) open() string {
	c.t.Helper()
	var lines []string
	for _, query := range []ledger.SQL{
		`SELECT 'chain ' || chain || ' halted: ' || halted FROM chains`,
		`SELECT 'lease ' || name || ' ' || owner || ' ' || term FROM leases`,
		`SELECT 'signer ' || signer || ' next ' || next_nonce || ' chain ' || chain_nonce || ' halted: ' || halted || ' paused: ' || paused_reason || ' ' || last_error
			FROM signer_chains ORDER BY signer`,
		`SELECT 'intent ' || id || ' ' || status || ' ' || waiting || ' ' || signer || ' ' || nonce || ' ' || hash || ' ' || error
			FROM intents WHERE NOT final ORDER BY seq LIMIT 20`,
		`SELECT 'slot ' || signer || ' ' || nonce || ' ' || holder || ' ' || intent || ' ' || consumed || ' ' || block
			FROM slots WHERE NOT final ORDER BY signer, nonce LIMIT 20`,
		`SELECT 'attempt ' || a.signer || ' ' || a.nonce || ' ' || a.version || ' ' || a.purpose || ' ' || a.state || ' ' || a.hash || ' ' || a.offers || ' ' || a.error
			FROM attempts a JOIN slots s ON s.chain = a.chain AND s.era = a.era AND s.signer = a.signer AND s.nonce = a.nonce
			WHERE NOT s.final ORDER BY a.signer, a.nonce, a.version LIMIT 40`,
	} {
		lines = append(lines, ledgertest.List[string](c.t, c.db, query)...)
	}
	return strings.Join(lines, "\n")
}

func (c *caller) count(query ledger.SQL, args ...any) int {
	c.t.Helper()
	return must.Get(ledgertest.One[int](c.t, c.db, query, args...))(c.t)
}

// verdict counts what must never happen.
type verdict struct{ twice, holes, wrong int }

func (v verdict) String() string {
	return fmt.Sprintf("executed twice %d, holes left %d, fates wrong %d", v.twice, v.holes, v.wrong)
}

// audit holds the ledger against laws 1 to 7 and against the chain, which alone is believed.
func (c *caller) audit(url string) verdict {
	c.t.Helper()
	v := c.judge(c.executions(url))
	c.auditNonces(url)
	return v
}

const holes = `SELECT count(*) FROM slots s WHERE s.consumed = '' AND EXISTS
	(SELECT 1 FROM slots m WHERE m.chain = s.chain AND m.era = s.era AND m.signer = s.signer AND m.nonce > s.nonce AND m.consumed <> '')`

// judge holds the ledger against laws 1 to 7 and against how often each intent's word was
// executed.
func (c *caller) judge(runs map[string]int) verdict {
	c.t.Helper()
	v := verdict{holes: c.count(holes)}
	for _, n := range runs {
		if n > 1 {
			v.twice++
		}
	}
	for id, word := range c.ids {
		t := c.get(id)
		want := 0
		if t.Status == txmgr.StatusConfirmed {
			want = 1
		}
		if got := runs["0x"+hex.EncodeToString(word)]; got != want {
			v.wrong++
			c.t.Errorf("intent %s is %s and was executed %d times", id, t.Status, got)
		}
		if !t.Final {
			v.wrong++
			c.t.Errorf("intent %s has no fate: %s", id, t.Status)
		}
	}
	for what, query := range map[string]ledger.SQL{
		"law 1: a slot was consumed by bytes that the ledger has not": `SELECT count(*) FROM slots s WHERE s.consumed <> '' AND s.holder <> 'foreign'
			AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.chain = s.chain AND a.era = s.era AND a.hash = s.consumed AND a.nonce = s.nonce)`,
		"law 2: an intent has attempts at two nonces, and the first is not a foreign transaction's": `SELECT count(*) FROM attempts a
			JOIN attempts b ON a.intent = b.intent AND a.nonce < b.nonce AND a.purpose NOT IN ('fill', 'cancel') AND b.purpose NOT IN ('fill', 'cancel')
			JOIN slots s ON s.chain = a.chain AND s.era = a.era AND s.signer = a.signer AND s.nonce = a.nonce WHERE s.holder <> 'foreign'`,
		"law 3: a slot below a consumed one is not consumed": holes,
		"law 4: an attempt has a term that never was": `SELECT count(*) FROM attempts a JOIN leases l ON l.name = 'txm:' || a.chain || ':' || a.signer
			WHERE a.term > l.term`,
		"law 5: a key has two intents": `SELECT count(*) FROM (SELECT tenant, idem_key FROM intents WHERE idem_key <> '' GROUP BY tenant, idem_key
			HAVING count(*) > 1) AS twice`,
		"law 6: a hash is in two slots": `SELECT count(*) FROM (SELECT chain, era, hash FROM attempts GROUP BY chain, era, hash
			HAVING count(DISTINCT nonce) > 1) AS twice`,
		"law 7: a budget is held for nothing": `SELECT count(*) FROM spend WHERE held <> '0'`,
		"the stream left out an event": `SELECT count(*) FROM intents i WHERE NOT EXISTS
			(SELECT 1 FROM outbox o WHERE o.subject = i.id AND o.kind = 'tx.' || i.status)`,
	} {
		if n := c.count(query); n != 0 {
			c.t.Errorf("%s: %d rows", what, n)
		}
	}
	return v
}

// sameBytes checks that each slot was signed for once: no bump was due.
func (c *caller) sameBytes() {
	c.t.Helper()
	if n := c.count("SELECT count(*) FROM (SELECT nonce FROM attempts GROUP BY chain, era, signer, nonce HAVING count(*) > 1) AS twice"); n != 0 {
		c.t.Errorf("%d slots were signed for twice", n)
	}
}

// auditNonces compares every lane with the chain: the nonce is the count of slots, and each
// transaction of the chain is the one that the ledger says.
func (c *caller) auditNonces(url string) {
	c.t.Helper()
	lanes := must.Get(c.m.Signers(context.WithoutCancel(c.t.Context()), ""))(c.t)
	for _, lane := range lanes {
		var text string
		must.Do(c.t, callRPC(url, "eth_getTransactionCount", &text, lane.Signer, "latest"))
		if got := number(text); got != lane.NextNonce {
			c.t.Errorf("%s: the chain's nonce is %d, the ledger's %d", lane.Signer, got, lane.NextNonce)
		}
	}
	used := must.Get(ledgertest.Pairs[string, string](c.t, c.db, "SELECT consumed, signer || ' ' || nonce FROM slots WHERE consumed <> ''"))(c.t)
	for hash, slot := range used {
		var tx struct{ From, Nonce, BlockHash string }
		must.Do(c.t, callRPC(url, "eth_getTransactionByHash", &tx, hash))
		if got := strings.ToLower(tx.From) + " " + fmt.Sprint(number(tx.Nonce)); got != slot || tx.BlockHash == "" {
			c.t.Errorf("slot %s: the chain has %+v", slot, tx)
		}
	}
}

func number(text string) uint64 {
	n, ok := new(big.Int).SetString(strings.TrimPrefix(text, "0x"), 16)
	if !ok {
		return 0
	}
	return n.Uint64()
}

// executions counts the counter's events by their word.
func (c *caller) executions(url string) map[string]int {
	c.t.Helper()
	var logs []struct{ Topics []string }
	must.Do(c.t, callRPC(url, "eth_getLogs", &logs, map[string]any{"fromBlock": "0x0", "toBlock": "latest", "address": counter}))
	runs := map[string]int{}
	for _, l := range logs {
		runs[l.Topics[0]]++
	}
	return runs
}
