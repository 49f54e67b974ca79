package txm_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
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
