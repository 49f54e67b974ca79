package redistest_test

import (
	"context"
	"testing"
	"time"

	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

func roundTrip(t *testing.T, url string) {
	t.Helper()
	c, err := redisx.Open(url, redisx.Options{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
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
	fast, err := redisx.Open(s.URL(), redisx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	if err := fast.Ping(ctx).Err(); err == nil {
		t.Fatal("a paused server answers")
	}
	s.Resume()
	roundTrip(t, s.URL())
}

func TestCluster(t *testing.T)  { roundTrip(t, redistest.StartCluster(t).URL()) }
func TestSentinel(t *testing.T) { roundTrip(t, redistest.StartSentinel(t).URL()) }
