package redistest_test

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

func roundTrip(t *testing.T, url string) {
	t.Helper()
	c, ctx := redistest.Dial(t, url), t.Context()
	must.Do(t, c.Set(ctx, "k", "v", 0).Err())
	if got, err := c.Get(ctx, "k").Result(); err != nil || got != "v" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestServer(t *testing.T) {
	s := redistest.Start(t)
	roundTrip(t, s.URL())
	s.Kill()
	c := s.Client()
	if err := c.Ping(context.Background()).Err(); err == nil {
		t.Fatal("a killed server answers")
	}
	s.Restart()
	if n, err := c.DBSize(context.Background()).Result(); err != nil || n != 0 {
		t.Fatalf("after a restart: %d keys, %v", n, err)
	}
	s.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	fast := must.Get(redisx.Open(s.URL(), redisx.Options{}))(t)
	defer fast.Close()
	if err := fast.Ping(ctx).Err(); err == nil {
		t.Fatal("a paused server answers")
	}
	s.Resume()
	roundTrip(t, s.URL())
}

// A port of a test is nobody else's, whether its server runs or not.
func TestPortIsKept(t *testing.T) {
	s := redistest.Start(t)
	port := strconv.Itoa(s.Port())
	for round := range 3 {
		s.Kill()
		var others []net.Listener
		for range 2000 {
			other := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			others = append(others, other)
			if _, taken, _ := net.SplitHostPort(other.Addr().String()); taken == port {
				t.Fatalf("round %d: the port was given away", round)
			}
		}
		for _, other := range others {
			_ = other.Close()
		}
		s.Restart()
		roundTrip(t, s.URL())
	}
}

// After a failover what the replica had can be read, and it takes writes.
func TestFailover(t *testing.T) {
	s := redistest.StartSentinel(t)
	roundTrip(t, s.URL())
	s.Failover()
	c := redistest.Dial(t, s.URL())
	must.Until(t, "there is a new master", func() bool { return c.Set(t.Context(), "k", "w", 0).Err() == nil })
	if got := s.Replica.Client().Get(t.Context(), "k").Val(); got != "w" {
		t.Errorf("the replica has %q", got)
	}
}

func TestCluster(t *testing.T)  { roundTrip(t, redistest.StartCluster(t).URL()) }
func TestSentinel(t *testing.T) { roundTrip(t, redistest.StartSentinel(t).URL()) }
