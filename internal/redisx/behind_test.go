package redisx_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

// patience is how long anything may take that does happen, on a machine that is busy.
const patience = 2 * time.Minute

var generous = redisx.Options{Timeout: patience}

// run starts a Behind and returns it with the number of writes that were lost.
func run(t *testing.T, url string, change func(*redisx.BehindOptions)) (*redisx.Behind, *atomic.Int64) {
	t.Helper()
	client, err := redisx.Open(url, generous)
	if err != nil {
		t.Fatal(err)
	}
	lost := new(atomic.Int64)
	opts := redisx.BehindOptions{
		Timeout: patience, Rest: time.Millisecond, Queue: 100_000,
		Lost: func(redisx.Write, error) { lost.Add(1) },
	}
	if change != nil {
		change(&opts)
	}
	b := redisx.NewBehind(client, opts)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = client.Close()
	})
	return b, lost
}

var increment = redisx.Write{Name: "increment", Do: func(ctx context.Context, p redis.Pipeliner) { p.Incr(ctx, "n") }}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-ticker.C
	}
}

// Many writes arrive, in far fewer round trips than there are writes.
func TestBehindWrites(t *testing.T) {
	server := redistest.Start(t)
	b, lost := run(t, server.URL(), nil)
	const writes = 2000
	for range writes {
		b.Put(increment)
	}
	client := server.Client()
	until(t, "all is written", func() bool {
		n, err := client.Get(t.Context(), "n").Int()
		return err == nil && n == writes
	})
	if lost.Load() != 0 {
		t.Errorf("%d writes were lost", lost.Load())
	}
}

// What waits when the process stops is written.
func TestBehindWritesTheRestAtTheEnd(t *testing.T) {
	server := redistest.Start(t)
	client, err := redisx.Open(server.URL(), generous)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	b := redisx.NewBehind(client, redisx.BehindOptions{Timeout: patience, Queue: 10, Lost: func(w redisx.Write, err error) { t.Errorf("%s lost: %v", w.Name, err) }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 5 {
		b.Put(increment)
	}
	if err := b.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := server.Client().Get(t.Context(), "n").Int(); n != 5 {
		t.Errorf("%d writes arrived, %v", n, err)
	}
}

// Without a server nothing blocks, the queue stays bounded and what is lost is counted;
// and when the server is there again, so are the writes.
func TestBehindOutage(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	b, lost := run(t, server.URL(), func(o *redisx.BehindOptions) { o.Queue = 10 })
	const writes = 5000
	for range writes {
		b.Put(increment)
	}
	until(t, "the loss is counted", func() bool { return lost.Load() == writes })
	server.Restart()
	client := server.Client()
	until(t, "writes arrive again", func() bool {
		b.Put(increment)
		n, err := client.Get(t.Context(), "n").Int()
		return err == nil && n > 0
	})
}

// After a failure Redis is left alone: a dead server costs one deadline and no more.
func TestBehindRests(t *testing.T) {
	server := redistest.Start(t)
	b, _ := run(t, server.URL(), func(o *redisx.BehindOptions) { o.Rest = time.Hour })
	ask := func() error {
		return b.Ask(t.Context(), func(ctx context.Context, c redis.UniversalClient) error { return c.Get(ctx, "nothing").Err() })
	}
	if err := ask(); !errors.Is(err, redis.Nil) {
		t.Fatalf("a key that is not there: %v", err)
	}
	server.Kill()
	if err := ask(); err == nil || errors.Is(err, redisx.ErrResting) {
		t.Fatalf("without a server: %v", err)
	}
	for range 100 {
		if err := ask(); !errors.Is(err, redisx.ErrResting) {
			t.Fatalf("a moment later: %v", err)
		}
	}
}

// A caller that gives up, or a question that the server refuses, says nothing about
// the server.
func TestBehindBlamesTheRightOne(t *testing.T) {
	server := redistest.Start(t)
	b, _ := run(t, server.URL(), func(o *redisx.BehindOptions) { o.Rest = time.Hour })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	get := func(ctx context.Context) error {
		return b.Ask(ctx, func(ctx context.Context, c redis.UniversalClient) error { return c.Set(ctx, "a", "b", 0).Err() })
	}
	if err := get(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that is gone: %v", err)
	}
	if err := b.Ask(t.Context(), func(ctx context.Context, c redis.UniversalClient) error {
		return c.LPush(ctx, "a", strconv.Itoa(1)).Err()
	}); err != nil {
		t.Errorf("a list: %v", err)
	}
	if err := b.Ask(t.Context(), func(ctx context.Context, c redis.UniversalClient) error { return c.Incr(ctx, "a").Err() }); err == nil {
		t.Error("a list was incremented")
	}
	if err := get(t.Context()); err != nil {
		t.Errorf("after both: %v", err)
	}
}
