package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/lock"
)

// A message that shows a process its turn counts only if the turn was given after all that the process has heard, and for the claim that it
// has there: messages may be late, and from a server that has been replaced.
func TestMessageOfATurn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.Client()
	cfg := calm()
	cfg.MaxHold = envx.Millis(time.Hour)
	a, _ := onRedis(t, server.URL(), cfg, lock.Deps{})
	b, _ := onRedis(t, server.URL(), cfg, lock.Deps{})
	first := wait(t, enter(t, a, 5))
	behind := enter(t, b, 6)
	eventually(t, "b waits", func() bool { return queued(t.Context(), c, alice, b) == 1 })
	claim := strings.Split(must.Get(c.LIndex(t.Context(), queueKey(alice), 0).Result())(t), "|")
	tell := func(session string, fence uint64) {
		key := "lock:{" + strings.ToLower(alice.Hex()) + "}"
		must.Do(t, c.Publish(t.Context(), "lock:grants:"+b.Instance(), fmt.Sprintf("%s %s|%s|%d||||||", key, session, b.Instance(), fence)).Err())
	}
	future := uint64(time.Now().Add(time.Hour).UnixMicro())
	for _, m := range []struct {
		session string
		fence   uint64
	}{{claim[1], first.Turn().Fence}, {claim[1], first.Turn().Fence + 1}, {"another", future}} {
		resetStats(t, c)
		tell(m.session, m.fence)
		eventually(t, "b asks", func() bool { _, scripts := commands(t, c); return scripts == 1 })
		if svcHolds(b, 6) {
			t.Errorf("b believes a message with session %q and fence %d", m.session, m.fence)
		}
	}
	tell(claim[1], future)
	if wait(t, behind).Turn().Fence != future {
		t.Error("b has another turn than that of the message")
	}
}

// L6, L11: the same with Redis back while many still wait: they join again in ticket order
// and the turn in progress is adopted.
func TestRedisRestartsMidBurst(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := swift()
	cfg.RedisTimeout = envx.Millis(10 * time.Second)
	a, _ := process(t, server.Addr(), cfg, nil)
	b, _ := process(t, server.Addr(), cfg, nil)
	tr := &traffic{pauseAt: 150, goOn: make(chan struct{})} // or all would be over before Redis is back
	tr.send(t, a, "a", 150, 10*time.Millisecond)
	tr.send(t, b, "b", 150, 10*time.Millisecond)
	eventually(t, "the burst is under way", func() bool { return tr.count() >= 10 })
	server.Restart()
	eventually(t, "Redis is used again", func() bool { return a.RedisUp() && b.RedisUp() })
	// Both may have been in the middle of a turn when they met again, not more.
	settling, changes := tr.overlaps.Load(), a.Epoch()+b.Epoch()
	close(tr.goOn)
	tr.done(t, 10*time.Second)
	if n := tr.overlaps.Load() - settling; n > 3 && a.Epoch()+b.Epoch() == changes {
		t.Errorf("%d overlaps after Redis was back", n)
	}
	sharedAgain(t, server, a, b)
}

// L8: Redis hangs without closing anything.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := swift()
	cfg.RedisTimeout = envx.Millis(200 * time.Millisecond)
	a, _ := process(t, server.Addr(), cfg, nil)
	b, _ := process(t, server.Addr(), cfg, nil)
	server.Pause()
	wait(t, enter(t, a, 1)).Release()
	start := time.Now()
	tr := &traffic{}
	tr.send(t, a, "a", 50, 0)
	tr.done(t, 10*time.Second)
	t.Logf("50 turns with Redis hanging took %v", time.Since(start))
	server.Resume()
	sharedAgain(t, server, a, b)
}

// L11: all keys vanish under a holder and those who wait. The holder keeps its turn and
// nobody else gets one meanwhile, since all notice before anybody may take it.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	// Either process may be the first to notice.
	for holds := range 2 {
		t.Run([]string{"a holds", "b holds"}[holds], func(t *testing.T) {
			t.Parallel()
			testFlushAll(t, holds)
		})
	}
}

func testFlushAll(t *testing.T, holds int) {
	t.Helper()
	server := redistest.Start(t)
	cfg := swift()
	cfg.RedisTimeout = envx.Millis(10 * time.Second) // and with it the time that each leaves the other to notice
	a, _ := process(t, server.Addr(), cfg, nil)
	b, _ := process(t, server.Addr(), cfg, nil)
	holder := wait(t, enter(t, []*lock.Service{a, b}[holds], 0))
	c := server.Client()
	var tickets []*lock.Ticket
	for i := range 20 {
		svc := []*lock.Service{a, b}[i%2]
		tickets = append(tickets, enter(t, svc, uint64(i+1)))
	}
	eventually(t, "all are queued", func() bool { return queued(t.Context(), c, alice, a, b) == 20 })
	must.Do(t, c.FlushAll(t.Context()).Err())
	eventually(t, "all are queued again", func() bool { return queued(t.Context(), c, alice, a, b) == 20 })
	for _, ticket := range tickets {
		if svcHolds(a, ticket.Nonce()) || svcHolds(b, ticket.Nonce()) {
			t.Errorf("nonce %d got the turn beside the holder", ticket.Nonce())
		}
	}
	if err := holder.Check(); err != nil {
		t.Errorf("the holder lost its turn: %v", err)
	}
	holder.Release()
	tr := &traffic{}
	for _, ticket := range tickets {
		tr.wg.Go(func() {
			lease, err := ticket.Wait(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			defer lease.Release()
			tr.begin(lease, fmt.Sprintf("%s%04d", []string{"b", "a"}[ticket.Nonce()%2], ticket.Nonce()))
			tr.end(lease)
		})
	}
	tr.done(t, 10*time.Second)
	if n := tr.overlaps.Load(); n > 0 {
		t.Errorf("%d overlaps", n)
	}
	sharedAgain(t, server, a, b)
}

func svcHolds(svc *lock.Service, nonce uint64) bool {
	return slices.ContainsFunc(svc.Lanes(), func(l lock.LaneInfo) bool { return l.Held && l.Nonce == nonce })
}

// L11: a key that is evicted is put back by its holder.
func TestEvictedLockIsAdopted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, _ := process(t, server.Addr(), steady(), nil)
	lease := wait(t, enter(t, a, 0))
	c := server.Client()
	key := "lock:{" + strings.ToLower(alice.Hex()) + "}"
	if n, err := c.Del(t.Context(), key).Result(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	eventually(t, "the key is back", func() bool { return c.Exists(t.Context(), key).Val() == 1 })
	if err := lease.Check(); err != nil {
		t.Error(err)
	}
	if ttl := c.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > steady().MaxHold.Duration() {
		t.Errorf("the hold limit became %v", ttl)
	}
	lease.Release()
	eventually(t, "the key is gone", func() bool { return c.Exists(t.Context(), key).Val() == 0 })
}

// The lock taken by somebody else: the holder learns it. What it sent may be on its way, so the next of its own process goes only when it
// has let go; those of other processes need not wait.
func TestOverwrittenLockIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, _ := process(t, server.Addr(), steady(), nil)
	b, _ := process(t, server.Addr(), steady(), nil)
	lease := wait(t, enter(t, a, 0))
	c := server.Client()
	key := "lock:{" + strings.ToLower(alice.Hex()) + "}"
	var other *lock.Ticket
	for limit := time.Second; ; limit *= 2 {
		c.Del(t.Context(), key)
		other = enter(t, b, 1) // finds a free lock, unless its holder has put it back
		if _, err := other.WaitWithin(t.Context(), limit); err == nil {
			break
		}
		if limit > patience {
			t.Fatal("the lock was never found free")
		}
	}
	select {
	case <-lease.Context().Done():
	case <-time.After(patience):
		t.Fatal("the holder never learned it")
	}
	if !errors.Is(lease.Check(), lock.ErrLost) {
		t.Errorf("check says %v", lease.Check())
	}
	next := enter(t, a, 2)
	other.Leave()
	for nonce := range uint64(20) {
		wait(t, enter(t, b, nonce+3)).Release()
		if lanes := a.Lanes(); len(lanes) != 1 || lanes[0].Held {
			t.Fatalf("the next has the turn while the one before is at work: %+v", lanes)
		}
	}
	lease.Release()
	wait(t, next).Release()
}

// Text or a value of another kind that would be in a sender's keys for ever is removed, and the sender is shared again. What has an end
// of life may be another version's: it is left alone.
func TestForeignValuesAreRepaired(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := swift()
	cfg.MaxHold = envx.Millis(time.Second)
	a, _ := process(t, server.Addr(), cfg, nil)
	c, key := server.Client(), "lock:{"+strings.ToLower(alice.Hex())+"}"
	shared := func() bool {
		lease, err := enter(t, a, 1).WaitWithin(t.Context(), patience)
		if errors.Is(err, lock.ErrLost) {
			return false // the machine stood still
		}
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release()
		return lease.Turn().Strategy == "redis"
	}
	const text = "somebody|else.1|5|6"
	for name, write := range map[string]func() error{
		"text":   func() error { return c.Set(t.Context(), key, text, 0).Err() },
		"a list": func() error { return c.RPush(t.Context(), key, "x").Err() },
	} {
		drained(t, a)
		if err := errors.Join(c.Del(t.Context(), key).Err(), write()); err != nil {
			t.Fatal(name, err)
		}
		eventually(t, name+" is gone", shared)
	}
	must.Do(t, c.Set(t.Context(), key, text, time.Hour).Err())
	for began := time.Now(); time.Since(began) < 2*time.Second; {
		if shared() {
			t.Fatal("what has an end of life was removed")
		}
		<-time.After(50 * time.Millisecond)
	}
	if got := c.Get(t.Context(), key).Val(); got != text {
		t.Errorf("%q is left", got)
	}
}

// A server that forgot its scripts is taught them again.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, _ := process(t, server.Addr(), steady(), nil)
	c := server.Client()
	for i := range 5 {
		must.Do(t, c.ScriptFlush(t.Context()).Err())
		lease := wait(t, enter(t, a, uint64(i)))
		if lease.Turn().Strategy != "redis" {
			t.Error("fell back to the order of the process")
		}
		lease.Release()
	}
}

// L24: processes that order by other settings are named, and counted for as long as they do.
func TestOtherSettingsAreWarnedOf(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	process(t, server.Addr(), swift(), nil)
	other := swift()
	other.Window, other.Percent = envx.Millis(time.Second), 50
	var out lines
	svc, _ := process(t, server.Addr(), other, slog.New(slog.NewTextHandler(&out, nil)))
	eventually(t, "a warning", func() bool {
		return strings.Contains(out.String(), "other settings") && strings.Contains(out.String(), "gap=0s")
	})
	differ := func() float64 { return series(t, svc)["lockstep_ordering_settings_differ"] }
	eventually(t, "the other one is counted", func() bool { return differ() == 1 })
	svc.SetEnabled(false)
	eventually(t, "nobody is counted while ordering is off", func() bool { return differ() == 0 })
}

// A process from before relays had claims, with the same settings, is told by what it does not say of itself: that it shares no order.
func TestOtherProtocolIsWarnedOf(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := swift()
	cfg.HeartbeatInterval, cfg.HeartbeatMissed = envx.Millis(30*time.Millisecond), 20 // settings are told with each twelfth heartbeat
	var out lines
	svc, _ := process(t, server.Addr(), cfg, slog.New(slog.NewTextHandler(&out, nil)))
	c := server.Client()
	mine := ""
	eventually(t, "settings are told", func() bool {
		mine = c.HGet(t.Context(), "lock:instances", svc.Instance()).Val()
		return mine != ""
	})
	at, settings, _ := strings.Cut(mine, " protocol=2 ")
	must.Do(t, c.HSet(t.Context(), "lock:instances", "b4b9a5a6-0000-4000-8000-000000000000", at+" "+settings).Err())
	eventually(t, "a warning", func() bool { return strings.Contains(out.String(), "no order is shared with it") })
	eventually(t, "the other one is counted", func() bool { return series(t, svc)["lockstep_ordering_settings_differ"] == 1 })
}

// Processes whose settings are the same again say so, and are not counted any more.
func TestSettingsThatAreTheSameAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	all := swift()
	// Settings are told with each twelfth heartbeat.
	all.HeartbeatInterval, all.HeartbeatMissed = envx.Millis(30*time.Millisecond), 20
	half := all
	half.Percent = 50
	var out lines
	one, _ := process(t, server.Addr(), all, slog.New(slog.NewTextHandler(&out, nil)))
	two, _ := process(t, server.Addr(), half, nil)
	eventually(t, "one counts the other", func() bool { return series(t, one)["lockstep_ordering_settings_differ"] == 1 })
	two.SetRollout(all)
	eventually(t, "one counts nobody", func() bool { return series(t, one)["lockstep_ordering_settings_differ"] == 0 })
	eventually(t, "a line of its end", func() bool { return strings.Contains(out.String(), "have the same settings for it again") })
	two.SetRollout(half)
	eventually(t, "a second warning", func() bool { return strings.Count(out.String(), "by other settings") == 2 })
}

// Whoever is kept out of Redis from the start is told so.
func TestNeverLetInIsLogged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	must.Do(t, server.Client().ConfigSet(t.Context(), "requirepass", "secret").Err())
	var out lines
	startLogged(t, server, &out)
	eventually(t, "an error", func() bool {
		return strings.Contains(out.String(), "level=ERROR") && strings.Contains(out.String(), "NOAUTH")
	})
}

// Where messages do not get through, turns come later than they could, and somebody has to know.
func TestSilentPubSubIsLogged(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"resetchannels", "-publish"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			must.Do(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", rule).Err())
			var out lines
			startLogged(t, server, &out)
			eventually(t, "a warning", func() bool { return strings.Contains(out.String(), "redis delivers no messages") })
		})
	}
}

// startLogged runs a service whose log goes to out.
func startLogged(t *testing.T, server *redistest.Server, out *lines) {
	t.Helper()
	svc, _, client := wired(t, server.Addr(), swift(), slog.New(slog.NewTextHandler(out, nil)))
	stop := running(t, svc)
	t.Cleanup(func() { stop(); _ = client.Close() })
}

// lines is a buffer for logs.
type lines struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// L10: a holder that vanishes, with places of its own behind it, does not hold others up
// until its hold limit. (The benchmark says how long it does with the settings as delivered.)
func TestVanishedHolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, cable := process(t, server.Addr(), mortal(), nil)
	b, _ := process(t, server.Addr(), mortal(), nil)
	wait(t, enter(t, a, 0)) // never released
	for i := range 5 {
		enter(t, a, uint64(i+1))
	}
	c := server.Client()
	next := enter(t, b, 9)
	eventually(t, "places are taken", func() bool { return queued(t.Context(), c, alice, a, b) == 6 })
	cable.sever()
	start := time.Now()
	lease := wait(t, next)
	t.Logf("the next one waited %v", time.Since(start))
	if n := lease.Next(lock.Known{}); n.Certainty != lock.Unknown {
		t.Error("what the vanished one did is taken for known")
	}
	lease.Release()
	// It is a new instance when it comes back.
	cable.mend()
	for _, l := range a.Lanes() {
		if _, err := a.ForceRelease(t.Context(), l.Sender); err != nil {
			t.Error(err)
		}
	}
	ready(t, a)
}

// Somebody else's value in the keys of a sender's queue stops no script halfway: no lock stays without a turn, not
// for the hold limit, and when the value is gone, or has been removed, the sender is shared again.
func TestForeignQueueLeavesNoLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := swift()
	cfg.MaxHold = envx.Millis(10 * time.Minute)
	cfg.RedisTimeout = envx.Millis(2 * time.Second) // whoever finds that its claim is gone waits for so long
	a, _ := process(t, server.Addr(), cfg, nil)
	b, _ := process(t, server.Addr(), cfg, nil)
	c, tag := server.Client(), "{"+strings.ToLower(alice.Hex())+"}"
	owner, queue := "lock:"+tag, "lock:queue:"+tag
	for name, write := range map[string]func(context.Context, redis.Pipeliner){
		"text for the queue":              func(ctx context.Context, c redis.Pipeliner) { c.Set(ctx, queue, "x", 0) },
		"a set for the queue":             func(ctx context.Context, c redis.Pipeliner) { c.SAdd(ctx, queue, "x") },
		"a list of something else":        func(ctx context.Context, c redis.Pipeliner) { c.RPush(ctx, queue, "x") },
		"text for the queue, with an end": func(ctx context.Context, c redis.Pipeliner) { c.Set(ctx, queue, "x", time.Second) },
	} {
		replace := func() {
			if _, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
				p.Del(t.Context(), queue)
				write(t.Context(), p)
				return nil
			}); err != nil {
				t.Fatal(name, err)
			}
		}
		for when, meet := range map[string]func(){
			"before the first": func() { replace() },
			"in a turn": func() {
				lease := wait(t, enter(t, a, 1))
				replace()
				lease.Release()
			},
			"in a turn, with others in line": func() {
				lease := wait(t, enter(t, a, 1))
				behind, elsewhere := enter(t, a, 2), enter(t, b, 3)
				replace()
				lease.Release()
				inAnyOrder(t, behind, elsewhere)
			},
			"in a turn that is adopted": func() {
				lease := wait(t, enter(t, a, 1))
				replace()
				must.Do(t, c.Del(t.Context(), owner).Err())
				elsewhere := enter(t, b, 2)
				lease.Release()
				wait(t, elsewhere).Release()
			},
		} {
			drained(t, a)
			drained(t, b)
			meet()
			for nonce := range uint64(3) {
				wait(t, enter(t, a, nonce)).Release()
				wait(t, enter(t, b, nonce)).Release()
			}
			eventually(t, name+", "+when+": nobody owns the lock", func() bool {
				return c.Exists(t.Context(), owner).Val() == 0
			})
			eventually(t, name+", "+when+": the sender is shared again", func() bool {
				lease := wait(t, enter(t, b, 1))
				defer lease.Release()
				return lease.Turn().Strategy == "redis"
			})
		}
	}
}

// inAnyOrder gives each of the tickets its turn, whichever comes first.
func inAnyOrder(t *testing.T, tickets ...*lock.Ticket) {
	t.Helper()
	var wg sync.WaitGroup
	for _, ticket := range tickets {
		wg.Go(func() {
			lease, err := ticket.WaitWithin(t.Context(), patience)
			if err != nil {
				t.Error(err)
				return
			}
			lease.Release()
		})
	}
	wg.Wait()
}
