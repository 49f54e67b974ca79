package txm_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet"
	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/txmgr"
	"lockstep/watch/watchtest"
)

// storm is how much trouble there is.
type storm struct {
	lasts, kill, flap, database, redis time.Duration
	lease, patience                    time.Duration
	rate                               int // transactions offered in a second
}

// stormOf is a short one in every run, and as long as LOCKSTEP_CHAOS_TIME says in `make chaos-txm`.
func stormOf(t testing.TB) storm {
	text := os.Getenv("LOCKSTEP_CHAOS_TIME")
	if text == "" {
		return storm{lasts: 15 * time.Second, kill: 5 * time.Second, flap: 3 * time.Second, database: 8 * time.Second, redis: 2 * time.Second, lease: 3 * time.Second, patience: 4 * time.Second, rate: 20}
	}
	lasts := must.Get(time.ParseDuration(text))(t)
	return storm{lasts: lasts, kill: 20 * time.Second, flap: 7 * time.Second, database: 90 * time.Second, redis: 15 * time.Second, lease: 10 * time.Second, patience: 10 * time.Second, rate: 100}
}

// managers are `lockstep txm` processes on one database.
type managers struct {
	t        testing.TB
	settings []string
	names    []string
	members  map[string]*harness.Process
	urls     map[string]string
}

func (m *managers) start(name string) {
	m.t.Helper()
	cmd := exec.Command(harness.Program(m.t), "txm")
	cmd.Dir = m.t.TempDir() // no .env file of the developer's
	cmd.Env = append(append(harness.Environment(), m.settings...), "INSTANCE_ID="+name, "TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS="+strings.TrimPrefix(m.urls[name], "http://"))
	m.members[name] = harness.Run(m.t, cmd)
}

func startManagers(t testing.TB, s storm, database, redis string, nodes ...*proxy) *managers {
	t.Helper()
	spec := map[string]any{"31337": map[string]any{"url": []string{nodes[0].url, nodes[1].url}, "depth": 2}}
	chains := must.Get(json.Marshal(spec))(t)
	m := &managers{t: t, names: []string{"a", "b", "c"}, members: map[string]*harness.Process{}, urls: map[string]string{}, settings: []string{
		"DATABASE_URL=" + database, "TXM_REDIS_URL=" + redis, "TXM_CHAINS=" + string(chains), "RELAYER_PRIVATE_KEYS=" + strings.Join(devKeys, ","),
		"TXM_IN_FLIGHT=64", "TXM_LEASE=" + s.lease.String(), "TXM_SEND_TIMEOUT=" + (s.lease / 3).String(), "TXM_RESEND_AFTER=2s", "TXM_RECONCILE=5s", "TXM_HEAD_PATIENCE=" + s.patience.String(),
		"TXM_BUMP_AFTER=20s", "PRETTY_LOGS_ENABLED=false",
	}}
	for _, name := range m.names {
		m.urls[name] = fmt.Sprintf("http://127.0.0.1:%d", proctest.FreePort(t))
		m.start(name)
	}
	m.ready()
	return m
}

// ready waits until every process is; one that could not begin is started again.
func (m *managers) ready() {
	m.t.Helper()
	for _, name := range m.names {
		until(m.t, name+" is ready", func() bool {
			m.supervise()
			return ask("GET", m.urls[name]+"/health/readiness", "", "", nil) == 200
		})
	}
}

// TestChaos offers transactions to three processes for a while, in which owners are killed,
// the database crashes and comes back, Redis, which wakes the owners, is emptied or crashes, the chain's two
// endpoints fall, lose answers and say nothing of receipts, one of them lies, limits or stands still, and a key runs dry for longer than a head of the line may
// wait. Then the ledger and the chain are held against the laws.
func TestChaos(t *testing.T) {
	s := stormOf(t)
	chain := startAnvil(t, "--block-time", "1")
	server := pgtest.Start(t)
	database, redis := server.Database(), redistest.Start(t)
	nodes := []*proxy{startProxy(t, chain.url), startProxy(t, chain.url)}
	m := startManagers(t, s, database, redis.URL(), nodes...)
	c := newCaller(t, txmNode{Ledger: database, Chain: 31337, URLs: []string{chain.url}})
	until(t, "there is a policy", func() bool {
		return ask("POST", m.urls["a"]+"/v1/policies", `{"rules":{"tenantDailyGas":"1000000000000000000000000"}}`, "", nil)/100 == 2
	})
	l := startLoad(m, s.rate)
	kills, dry := m.trouble(c, s, chain, server, redis, nodes, l)
	for _, n := range nodes {
		n.fall(false)
		n.spoil("", "", 0)
		n.sicken(nil)
	}
	flood(chain)
	if n := len(dry); n > 0 {
		dry[n-1].to = min(dry[n-1].to, chain.now())
	}
	m.ready()
	l.end()
	if !redis.Running() {
		redis.Restart()
	}
	until(t, "Redis wakes every process", func() bool {
		listeners, err := redis.Client().PubSubNumSub(t.Context(), "lockstep:txm").Result()
		return err == nil && listeners["lockstep:txm"] == int64(len(m.names))
	})
	c.ids = l.accepted
	c.settledWithin(patience + s.lasts)
	v := c.audit(chain.url)
	c.oneEachKey(l)
	for name, p := range m.members {
		if !p.Alive() {
			t.Errorf("process %s ended by itself:\n%s", name, p.Log)
		}
	}
	t.Logf("%d transactions accepted, %d calls repeated, %d owners killed", len(l.accepted), l.late.Load(), kills)
	for _, what := range []string{"purpose = 'fill'", "purpose = 'cancel'", "version > 1", "ambiguous"} {
		t.Logf("%d attempts with %s", c.count(ledger.SQL("SELECT count(*) FROM attempts WHERE "+what)), what)
	}
	c.heads(chain, s, dry)
	t.Log(v)
}

// spell is a time by the chain's clock, in seconds.
type spell struct{ from, to uint64 }

// trouble makes it, one at a time, until the storm is over, an owner was killed, Redis was emptied and killed, and a call had to be repeated. dry are
// the times in which the first key had no money.
func (m *managers) trouble(c *caller, s storm, chain *anvil, server *pgtest.Server, redis *redistest.Server, nodes []*proxy, l *load) (kills int, dry []spell) {
	over, limit := time.After(s.lasts), time.After(s.lasts+patience)
	lasts := true
	kill, flap, database, waker := time.NewTicker(s.kill), time.NewTicker(s.flap), time.NewTicker(s.database), time.NewTicker(s.redis)
	emptied, crashed, left := 0, 0, 0 // left: flaps until there is money again
	kinds := slices.Sorted(maps.Keys(faults))
	defer kill.Stop()
	defer flap.Stop()
	defer database.Stop()
	defer waker.Stop()
	for lasts || kills == 0 || crashed == 0 || l.late.Load() == 0 {
		select {
		case <-over:
			lasts = false
		case <-limit:
			m.t.Fatalf("%d owners were killed, Redis crashed %d times, and %d calls had to be repeated: no trouble", kills, crashed, l.late.Load())
		case <-kill.C:
			name, signers := c.anyOwner()
			if name == "" {
				continue
			}
			m.members[name].Kill()
			kills++
			m.t.Logf("%s is killed, the owner of %d signers", name, len(signers))
			m.start(name)
		case <-database.C:
			m.t.Log("the database crashes")
			server.Kill()
			server.Restart()
		case <-waker.C:
			switch {
			case emptied > crashed && !redis.Running(): // it was away from one tick to the next
				redis.Restart()
				crashed++
			case emptied > crashed:
				redis.Kill()
			default:
				if err := redis.Client().FlushAll(m.t.Context()).Err(); err != nil {
					m.t.Errorf("FLUSHALL: %v", err)
				}
				emptied++
			}
		case <-flap.C:
			m.supervise()
			for _, n := range nodes {
				n.fall(rand.IntN(3) == 0)
				how := []string{swallow, null}[rand.IntN(2)]
				method := "eth_sendRawTransaction"
				if how == null {
					method = "eth_getTransactionReceipt"
				}
				n.spoil(method, how, rand.IntN(5))
				n.sicken(nil)
			}
			name := kinds[rand.IntN(len(kinds))]
			struck := rand.IntN(len(nodes))
			nodes[struck].sicken(faults[name])
			m.t.Logf("endpoint %d has the fault %q", struck+1, name)
			switch left--; {
			case left == 0:
				flood(chain)
				dry[len(dry)-1].to = chain.now()
			case left < 0 && rand.IntN(3) == 0:
				left = 1 + rand.IntN(4) // most droughts outlast the patience
				dry = append(dry, spell{from: chain.now(), to: math.MaxUint64})
				drain(chain)
				m.t.Logf("a key runs dry for %v", time.Duration(left)*s.flap)
			}
		}
	}
	m.t.Logf("Redis was emptied %d times and crashed %d times", emptied, crashed)
	return kills, dry
}

// now is the time of the newest block.
func (a *anvil) now() uint64 { return a.at("latest") }

func (a *anvil) at(block string) uint64 {
	var found struct{ Timestamp string }
	a.call("eth_getBlockByNumber", &found, block, false)
	return number(found.Timestamp)
}

// heads measures how long each nonce was the lowest of its signer that was not mined, without the time in which the signer had no money at all. In the
// long form none may be that for much longer than the patience, the time that a lease needs to change hands, and what both endpoints may be away.
func (c *caller) heads(chain *anvil, s storm, dry []spell) {
	c.t.Helper()
	times := map[uint64]uint64{}
	mined := func(block uint64) uint64 {
		if times[block] == 0 {
			times[block] = chain.at(fmt.Sprintf("0x%x", block))
		}
		return times[block]
	}
	type slot struct {
		signer           string
		nonce, block, at uint64
	}
	var list []slot
	ctx := context.WithoutCancel(c.t.Context())
	must.Do(c.t, c.db.Read(ctx, func(tx *ledger.Tx) error {
		return tx.Query(ctx, "SELECT signer, nonce, block, assigned_at / 1000000 FROM slots WHERE consumed <> '' ORDER BY signer, nonce", nil, func(r ledger.Row) error {
			var one slot
			err := r.Scan(&one.signer, &one.nonce, &one.block, &one.at)
			list = append(list, one)
			return err
		})
	}))
	type head struct {
		slot
		took uint64
	}
	var heads []head
	for n, one := range list {
		since, end := one.at, mined(one.block)
		if n > 0 && list[n-1].signer == one.signer {
			since = max(since, mined(list[n-1].block))
		}
		took := end - min(since, end)
		if strings.EqualFold(one.signer, keyOf(devKeys[0]).Account()) {
			for _, d := range dry {
				if from, to := max(d.from, since), min(d.to, end); from < to {
					took -= min(took, to-from)
				}
			}
		}
		heads = append(heads, head{one, took})
	}
	slices.SortStableFunc(heads, func(a, b head) int { return cmp.Compare(b.took, a.took) })
	longest := heads[0].took
	for _, h := range heads[:min(len(heads), 8)] {
		c.t.Logf("the head of a line for %d s, until %s: nonce %d of %s; the patience is %v", h.took, time.Unix(int64(mined(h.block)), 0).UTC().Format(time.TimeOnly), h.nonce, h.signer, s.patience)
	}
	c.t.Logf("%d intents gave way for want of money", c.count("SELECT count(*) FROM intents WHERE status = 'failed' AND error_class = 'funds'"))
	if limit := s.patience + 2*s.lease + 3*s.flap; os.Getenv("LOCKSTEP_CHAOS_TIME") != "" && longest > uint64(limit/time.Second) {
		c.t.Errorf("a head of a line was in the way for %d s, the limit is %v", longest, limit)
	}
}

// drain takes the money of one key, flood gives it back.
func drain(chain *anvil) { chain.call("anvil_setBalance", nil, keyOf(devKeys[0]).Account(), "0x0") }

func flood(chain *anvil) {
	chain.call("anvil_setBalance", nil, keyOf(devKeys[0]).Account(), "0x21e19e0c9bab2400000")
}

// supervise starts again what could not begin because the database was down.
func (m *managers) supervise() {
	for _, name := range m.names {
		if p := m.members[name]; !p.Alive() && !p.Log.Has("is ready") {
			m.t.Logf("%s could not begin: %s", name, p.Log)
			m.start(name)
		}
	}
}

// anyOwner returns a process that owns signers, and which.
func (c *caller) anyOwner() (string, []string) {
	owned := map[string][]string{}
	for _, key := range devKeys {
		signer := strings.ToLower(keyOf(key).Account())
		owner, _, _ := strings.Cut(c.text("SELECT coalesce(max(owner), '') FROM leases WHERE name = $1", "txm:31337:"+signer), "/")
		if owner != "" {
			owned[owner] = append(owned[owner], signer)
		}
	}
	names := make([]string, 0, len(owned))
	for name := range owned {
		names = append(names, name)
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.Sort(names)
	name := names[rand.IntN(len(names))]
	return name, owned[name]
}

// oneEachKey checks that every key has the one intent that its caller was told of.
func (c *caller) oneEachKey(l *load) {
	c.t.Helper()
	if n := c.count("SELECT count(*) FROM intents WHERE idem_key <> ''"); n != len(l.accepted) {
		c.t.Errorf("the ledger has %d intents, the callers were told of %d", n, len(l.accepted))
	}
	if n := c.count("SELECT count(*) FROM intents WHERE status NOT IN ('confirmed', 'cancelled') AND NOT (status = 'failed' AND error_class = 'funds')"); n != 0 {
		c.t.Errorf("%d intents were not executed, and nobody cancelled them", n)
	}
}

// TestCrashMatrix kills the owner by SIGKILL at every point between two steps, twice, on
// every ledger and on every kind of chain. Afterwards each slot has been signed for once,
// nothing ran twice and nothing was lost.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	chains := map[string][]string{"automine": nil, "blocks of 1 s": {"--block-time", "1"}}
	ledgers(t, func(t *testing.T, fresh func(*testing.T) string) {
		for name, args := range chains {
			t.Run(name, func(t *testing.T) {
				chain := startAnvil(t, args...)
				for _, point := range txmgr.Points {
					t.Run(point, func(t *testing.T) {
						n := txmNode{Ledger: fresh(t), Chain: 31337, URLs: []string{chain.url}, Keys: []string{newKey(t, chain)}, Lease: 3 * time.Second}
						t.Parallel() // most of the time it waits for a lease to expire
						crash(t, n, point, func(c *caller) { c.audit(chain.url) })
					})
				}
			})
		}
		t.Run("NEAR", func(t *testing.T) {
			for _, point := range txmgr.Points {
				t.Run(point, func(t *testing.T) {
					database := fresh(t)
					t.Parallel()
					n := startNEAR(t)
					crash(t, n.node(database), point, n.audit)
				})
			}
		})
		t.Run("Hedera", func(t *testing.T) {
			for _, point := range txmgr.Points {
				t.Run(point, func(t *testing.T) {
					database := fresh(t)
					t.Parallel()
					h := startHedera(t, devnet.Config{ConsensusLatency: 100 * time.Millisecond, Nodes: 2})
					n := h.node(database)
					n.InFlight = 8 // so that several are on their way when the owner dies
					crash(t, n, point, h.audit)
					if got := h.statuses(); len(got) != 1 || got["SUCCESS"] != len(h.records()) {
						t.Errorf("the consensus log has %v", got)
					}
				})
			}
		})
	})
}

func crash(t *testing.T, n txmNode, point string, audit func(*caller)) {
	n.Instance = "first"
	c := newCaller(t, n)
	n.Point = point
	c.many(5)
	first := n.start(t)
	until(t, "the owner dies at "+point, func() bool { return !first.Alive() })
	c.many(5)
	n.Instance = "second"
	second := n.start(t)
	until(t, "the second owner dies at "+point, func() bool { return !second.Alive() })
	c.many(5)
	n.Point, n.Instance = "", "third"
	n.start(t)
	c.many(5)
	c.settled()
	audit(c)
	c.sameBytes()
}

// TestStoppedBetweenSteps stops an owner by SIGSTOP at a point between two steps, or while its bytes are on their way, until
// another one has taken over and done the work. When it goes on, its late writes are refused, nothing that it signed alone
// leaves, and bytes that arrive late are those that the ledger has for their slot.
func TestStoppedBetweenSteps(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	const refused = "another owner has the signer"
	for point, want := range map[string]struct {
		log  string // what the stopped owner says at last
		sent int    // transactions that it has handed over
	}{
		txmgr.PointSigned: {refused, 0},
		txmgr.PointStored: {"the lease cannot be trusted long enough to send", 0},
		txmgr.PointSent:   {refused, 3},
		held:              {refused, 1}, // the first of a batch; the others are behind it
	} {
		database := server.Database()
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			chain := startAnvil(t, "--no-mining")
			early, other := startProxy(t, chain.url), startProxy(t, chain.url)
			n := txmNode{
				Ledger: database, Chain: 31337, URLs: []string{early.url}, Keys: devKeys[:1], Lease: 3 * time.Second, Resend: time.Second,
				Instance: "stopped", Point: point, Stop: true,
			}
			c := newCaller(t, n)
			for range 3 { // before anybody looks, so that they leave together
				c.must()
			}
			if point == held {
				early.spoil("eth_sendRawTransaction", held, 1)
			}
			stopped := n.start(t)
			if point == held {
				until(t, "the bytes are on their way", func() bool { return early.left() == 0 })
				stopped.Freeze()
			}
			until(t, "the owner is stopped at "+point, func() bool { return halted(stopped) })
			if got := len(early.sent()); got != want.sent {
				t.Fatalf("%d transactions have left, want %d", got, want.sent)
			}
			n.URLs, n.Instance, n.Point = []string{other.url}, "other", ""
			n.start(t)
			until(t, "the other has sent", func() bool { return c.owner() == "other" && len(other.sent()) >= 3 })
			until(t, "all are mined", func() bool {
				chain.mine(1)
				return c.count("SELECT count(*) FROM intents WHERE NOT final") == 0
			})
			if point == held {
				early.release()
			}
			stopped.Thaw()
			until(t, "the owner that was stopped finds out", func() bool { return stopped.Log.Has(want.log) })
			next := c.must()
			until(t, "the next one is mined", func() bool { chain.mine(1); return c.get(next.ID).Final })
			c.settled()
			c.audit(chain.url)
			c.sameBytes()
			for _, raw := range append(early.sent(), other.sent()...) {
				var tx types.Transaction
				must.Do(t, tx.UnmarshalBinary(hexutil.MustDecode(raw)))
				if c.count("SELECT count(*) FROM attempts WHERE hash = $1 AND nonce = $2", tx.Hash().Hex(), int64(tx.Nonce())) != 1 {
					t.Errorf("transaction %s with nonce %d was sent, and the ledger does not have it", tx.Hash(), tx.Nonce())
				}
			}
		})
	}
}

// halted reports whether the process is stopped by a signal.
func halted(p *harness.Process) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.Cmd.Process.Pid) + "/stat")
	if err != nil {
		return false
	}
	_, fields, found := strings.Cut(string(text), ") ") // the state follows the name
	return found && strings.HasPrefix(fields, "T")
}

// fault answers in the place of a node, or changes what the node says.
type fault func(p *proxy, c *watchtest.Call)

// faults are the ways in which an endpoint is of no use, without being gone. What each answer means internal/ethrpc tries one by one.
var faults = map[string]fault{
	"429":              func(_ *proxy, c *watchtest.Call) { c.Status = http.StatusTooManyRequests },
	"401":              func(_ *proxy, c *watchtest.Call) { c.Status = http.StatusUnauthorized },
	"502":              func(_ *proxy, c *watchtest.Call) { c.Status = http.StatusBadGateway },
	"-32005":           refusing(-32005, "daily request count exceeded, request rate limited"),
	"-32603":           refusing(-32603, "Internal error"),
	"header not found": refusing(-32000, "header not found"),
	"no backends":      refusing(-32011, "no backends available for method"),
	"batches of 3":     batchesOf(3),
	"no batches":       batchesOf(1),
	"absurd fees": changing(map[string]any{
		"eth_feeHistory": map[string]any{"oldestBlock": "0x1", "baseFeePerGas": []string{"0x38d7ea4c68000", "0x38d7ea4c68000"}, "gasUsedRatio": []float64{0.5}, "reward": [][]string{{"0x38d7ea4c68000", "0x38d7ea4c68000", "0x38d7ea4c68000"}}},
		"eth_gasPrice":   "0x38d7ea4c68000",
	}),
	"another chain": changing(map[string]any{"eth_chainId": "0x1"}),
	"no receipts":   changing(map[string]any{"eth_getTransactionReceipt": nil}),
	"half open":     (*proxy).lost,
	"dead":          func(*proxy, *watchtest.Call) { panic(http.ErrAbortHandler) },
	"stuck":         stuck,
}

func refusing(code int, text string) fault {
	return func(_ *proxy, c *watchtest.Call) { c.Error = fmt.Appendf(nil, `{"code":%d,"message":%q}`, code, text) }
}

func batchesOf(most int) fault {
	return func(_ *proxy, c *watchtest.Call) {
		if c.Together > most {
			c.Status = http.StatusRequestEntityTooLarge
		} else {
			c.Ask()
		}
	}
}

// changing hands calls on and puts other results in the place of some methods'.
func changing(results map[string]any) fault {
	return func(_ *proxy, c *watchtest.Call) {
		if result, other := results[c.Method]; other {
			c.Say(result)
		} else {
			c.Ask()
		}
	}
}

// stuck is a node that takes transactions and has seen no block since the fault began.
func stuck(p *proxy, c *watchtest.Call) {
	frozen, method := fmt.Appendf(nil, "%q", p.frozen), c.Method
	for n, param := range c.Params {
		if string(param) == `"latest"` {
			c.Params[n] = frozen
		}
	}
	c.Ask()
	var in struct {
		BlockNumber *hexutil.Uint64
	}
	_ = json.Unmarshal(c.Result, &in) // else it is in no block
	top := hexutil.MustDecodeUint64(p.frozen)
	switch {
	case method == "eth_blockNumber":
		c.Result = bytes.Clone(frozen)
	case in.BlockNumber != nil && uint64(*in.BlockNumber) > top:
		c.Say(nil)
	}
}

// sicken gives the endpoint a fault, nil for none.
func (p *proxy) sicken(f fault) {
	var head string
	_ = callRPC(p.target, "eth_blockNumber", &head) // of a node that is down nothing is asked
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick, p.frozen = f, head
	if head == "" {
		p.sick = nil
	}
}
