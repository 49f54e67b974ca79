package capacity

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/must"
)

// small is a memory of 32 MB, half of it for a client and a quarter for a request.
func small() Config {
	return Config{Limit: 512, Requests: 32, Client: 16, Request: 8, RequestTime: envx.Millis(time.Second), HeavyReads: 16}
}

func exceeded(t *testing.T, err error, scope Scope) {
	t.Helper()
	var e *Exceeded
	if !errors.As(err, &e) || e.Scope != scope {
		t.Fatalf("got %v, want the limit of %s", err, scope)
	}
}

func TestEachLimitOfBytesHolds(t *testing.T) {
	m := NewMemory(small())
	first := m.Open("a")
	must.Do(t, first.Take(8*megabyte))
	exceeded(t, first.Take(1), ScopeRequest)
	second := m.Open("a")
	must.Do(t, second.Take(8*megabyte))
	exceeded(t, m.Open("a").Take(8*megabyte), ScopeClient)
	for range 2 {
		must.Do(t, m.Open("b").Take(8*megabyte))
	}
	exceeded(t, m.Open("c").Take(freeBytes+1), ScopeProcess)
	if err := m.Open("c").Take(freeBytes); err != nil {
		t.Errorf("a small request was refused in a full process: %v", err)
	}
	for _, scope := range []Scope{ScopeRequest, ScopeClient, ScopeProcess} {
		if counted := must.Measure(t, m.Collectors()...)["rpc_relay_budget_refusals_total "+string(scope)]; counted != 1 {
			t.Errorf("%v refusals by the limit of %s", counted, scope)
		}
	}
	first.Close()
	if err := m.Open("c").Take(8 * megabyte); err != nil {
		t.Errorf("what was given back cannot be taken: %v", err)
	}
}

func TestBytesGoBackInPartsAndAtTheEnd(t *testing.T) {
	m := NewMemory(small())
	a := m.Open("a")
	must.Do(t, a.Take(megabyte))
	a.Give(megabyte / 2)
	if got := m.Used(); got != megabyte/2 {
		t.Errorf("%d bytes are used after half was given back", got)
	}
	a.Close()
	if m.Used() != 0 {
		t.Errorf("%d bytes are used after the end", m.Used())
	}
	if len(m.clients) != 0 {
		t.Errorf("%d clients are remembered that hold nothing", len(m.clients))
	}
	if err := a.Take(1); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed holding took more: %v", err)
	}
	var part Holding
	part.Begin(m, "2001:db8::1")
	if err := part.Take(megabyte); err != nil || part.Client() != "2001:db8::/64" {
		t.Errorf("a holding of %s: %v", part.Client(), err)
	}
	part.Close()
	for _, want := range []int64{megabyte, 0} {
		if peak := m.Peak(); peak != want {
			t.Errorf("the peak is %d, want %d", peak, want)
		}
	}
}

func TestNobodysHoldingHasNoLimit(t *testing.T) {
	for name, a := range map[string]*Holding{"nil": nil, "zero": {}, "none in the context": FromContext(t.Context())} {
		if err := a.Take(1 << 40); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		a.Give(1)
		a.Close()
	}
	a := NewMemory(small()).Open("a")
	if FromContext(context.WithValue(t.Context(), Key{}, a)) != a {
		t.Error("the holding is not found in its context")
	}
}

// TestHoldingsAddUpUnderContention lets many requests take and give at the same time.
func TestHoldingsAddUpUnderContention(t *testing.T) {
	m := NewMemory(small())
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range 200 {
				a := m.Open(string(rune('a' + i%3)))
				held := 0
				for range 8 {
					if n := random.IntN(2 * megabyte); a.Take(n) == nil {
						held += n
					}
					if m.Used() > m.limit {
						t.Error("more is used than there is")
					}
					give := random.IntN(held + 1)
					a.Give(give)
					held -= give
				}
				a.Close()
			}
		})
	}
	group.Wait()
	if m.Used() != 0 || len(m.clients) != 0 {
		t.Errorf("%d bytes are left of %d clients", m.Used(), len(m.clients))
	}
}

func TestACustomerIsOneClient(t *testing.T) {
	for ip, want := range map[string]string{
		"192.0.2.7":            "192.0.2.7",
		"::ffff:192.0.2.7":     "192.0.2.7",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"2001:db8:1:2::9":      "2001:db8:1:2::/64",
		"fe80::1%eth0":         "fe80::/64",
		"":                     "",
		"no address":           "no address",
	} {
		if got := ClientOf(ip); got != want {
			t.Errorf("ClientOf(%q) = %q, want %q", ip, got, want)
		}
	}
}

func TestSettings(t *testing.T) {
	c := Config{Limit: 512, RequestTime: 1e9, HeavyReads: 64}
	must.Do(t, c.Validate())
	if all := c.requests(); all != 512*megabyte/4 || c.client() != all/2 || c.request() != all/2 || c.processors() < 1 {
		t.Errorf("shares of %d bytes: %d, %d, %d", c.limit(), c.requests(), c.client(), c.request())
	}
	for name, bad := range map[string]Config{
		"all":   {Limit: 512, Requests: 1, RequestTime: 1e9, HeavyReads: 64},
		"reads": {Limit: 512, RequestTime: 1e9, HeavyReads: 1},
	} {
		if bad.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestGOMEMLIMITTakesThePlaceOfTheLimit: the shares are then of what it says.
func TestGOMEMLIMITTakesThePlaceOfTheLimit(t *testing.T) {
	const given = 256 * megabyte
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(given))
	t.Setenv("GOMEMLIMIT", "256MiB") // which the runtime has read when the process began
	c := Config{Limit: 512}
	if all := c.requests(); c.limit() != given || all != given/4 {
		t.Errorf("a limit of %d bytes, %d for requests", c.limit(), all)
	}
	t.Setenv("GOMEMLIMIT", "")
	if c.limit() != 512*megabyte {
		t.Errorf("without it a limit of %d bytes", c.limit())
	}
}

// TestAPartIsHeldByTheWhole: what a part of a request holds counts once, and goes back with
// the part, or with the request at the latest.
func TestAPartIsHeldByTheWhole(t *testing.T) {
	m := NewMemory(small())
	whole := m.Open("a")
	ctx, part := Part(context.WithValue(t.Context(), Key{}, whole))
	if FromContext(ctx) != part || part.Client() != "a" {
		t.Fatalf("the part is %s's", part.Client())
	}
	for _, a := range []*Holding{whole, part} {
		must.Do(t, a.Take(3*megabyte))
	}
	exceeded(t, part.Take(3*megabyte), ScopeRequest)
	if part.TryTake(3 * megabyte) {
		t.Error("the part has more than the whole may have")
	}
	part.Give(megabyte)
	if whole.Held() != 5*megabyte || part.Held() != 2*megabyte || m.Used() != 5*megabyte {
		t.Errorf("the whole holds %d, the part %d, the process %d", whole.Held(), part.Held(), m.Used())
	}
	part.Close()
	if err := part.Take(1); !errors.Is(err, ErrClosed) || whole.Held() != 3*megabyte {
		t.Errorf("after the part's end the whole holds %d; the part: %v", whole.Held(), err)
	}
	_, late := Part(context.WithValue(t.Context(), Key{}, whole))
	whole.Close()
	if err := late.Take(1); !errors.Is(err, ErrClosed) || m.Used() != 0 {
		t.Errorf("after the whole's end %d bytes are used; the part: %v", m.Used(), err)
	}
	if _, free := Part(t.Context()); free.Take(1<<40) != nil {
		t.Error("a part of nobody's holding has a limit")
	}
}

// TestGreedyClientsLeaveRoomForOthers: a client gets no more than what is left for all others,
// and more again when others give back.
func TestGreedyClientsLeaveRoomForOthers(t *testing.T) {
	config := small()
	config.Client, config.Request = 0, 32
	m := NewMemory(config)
	var clients []*Holding
	left := m.limit
	for i := range 5 {
		a := m.Open(string(rune('a' + i)))
		for a.TryTake(stepBytes) {
		}
		if a.Held() > left/2 || a.Held() < left/2-2*stepBytes {
			t.Fatalf("client %d got %d bytes where %d were left", i, a.Held(), left)
		}
		left -= a.Held()
		clients = append(clients, a)
	}
	exceeded(t, m.Open("a").Take(stepBytes), ScopeClient)
	clients[0].Close()
	before := clients[4].Held()
	for clients[4].TryTake(stepBytes) {
	}
	if more := clients[4].Held() - before; more < m.limit/8 {
		t.Errorf("the last client got %d bytes more after the first one gave back half of all", more)
	}
}
