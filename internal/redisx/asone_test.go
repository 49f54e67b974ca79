package redisx_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

// TestAsOne: several commands are sent as one and do what they would do by themselves, one
// that fails included; a single one, and what is too long for a script, is sent as it is.
func TestAsOne(t *testing.T) {
	server := redistest.Start(t)
	client, err := redisx.Open(server.URL(), generous)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, count := t.Context(), new(redistest.Sent)
	client.AddHook(count)
	asOne := func(want int64, queue func(redis.Pipeliner)) error {
		t.Helper()
		before := count.Load()
		err := redisx.AsOne(ctx, client, queue)
		if got := count.Load() - before; got != want {
			t.Errorf("%d commands were sent, want %d", got, want)
		}
		return err
	}
	some := func(p redis.Pipeliner) {
		p.ZAdd(ctx, "set", redis.Z{Score: 1.5, Member: "a b"}, redis.Z{Score: 2, Member: "\x00\xff"})
		p.Set(ctx, "text", "x", 0)
		p.ZRem(ctx, "set", "a b")
	}
	if err := asOne(2, some); err != nil { // the server does not know the script yet
		t.Fatal(err)
	}
	if got := client.ZRangeWithScores(ctx, "set", 0, -1).Val(); !slices.Equal(got, []redis.Z{{Score: 2, Member: "\x00\xff"}}) {
		t.Errorf("the set has %v", got)
	}
	err = asOne(1, func(p redis.Pipeliner) {
		p.Incr(ctx, "n")
		p.ZAdd(ctx, "text", redis.Z{Member: "a"}) // which is no set
		p.Incr(ctx, "n")
	})
	if n := client.Get(ctx, "n").Val(); err == nil || n != "2" {
		t.Errorf("a command failed, and the error is %v; n is %s", err, n)
	}
	if err := asOne(1, func(p redis.Pipeliner) { p.Incr(ctx, "n") }); err != nil {
		t.Error(err)
	}
	many := make([]any, 10_000)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	if err := asOne(2, func(p redis.Pipeliner) { p.SAdd(ctx, "many", many...); p.Incr(ctx, "n") }); err != nil {
		t.Error(err)
	}
	if got := client.SCard(ctx, "many").Val(); got != int64(len(many)) {
		t.Errorf("%d of %d were added", got, len(many))
	}
}

// TestAsOneCluster: the keys of a cluster are on different servers.
func TestAsOneCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers take their time")
	}
	client, err := redisx.Open(redistest.StartCluster(t).URL(), generous)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const keys = 20
	err = redisx.AsOne(t.Context(), client, func(p redis.Pipeliner) {
		for i := range keys {
			p.Set(t.Context(), fmt.Sprint("key", i), "x", 0)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if got := client.Get(t.Context(), fmt.Sprint("key", i)).Val(); got != "x" {
			t.Errorf("key %d is %q", i, got)
		}
	}
}

// A Redis that is short of memory takes no more values, and all else: on one server and in a
// cluster, alone and with others.
func TestAsOneShortOfMemory(t *testing.T) {
	for name, servers := range map[string]func() (string, []*redistest.Server){
		"one server": func() (string, []*redistest.Server) {
			s := redistest.Start(t)
			return s.URL(), []*redistest.Server{s}
		},
		"cluster": func() (string, []*redistest.Server) {
			c := redistest.StartCluster(t)
			return c.URL(), c.Nodes
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, nodes := servers()
			client, err := redisx.Open(url, generous)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ctx := t.Context()
			for _, short := range []bool{false, true} {
				if short {
					fill(t, nodes)
				}
				err = redisx.AsOne(ctx, client, func(p redis.Pipeliner) { p.Set(ctx, fmt.Sprint("alone", short), "x", 0) })
				if redisx.IsShort(err) != short {
					t.Errorf("short %v: a value alone: %v", short, err)
				}
				err = redisx.AsOne(ctx, client, func(p redis.Pipeliner) {
					p.Set(ctx, fmt.Sprint("with", short), "x", 0)
					p.ZAdd(ctx, fmt.Sprint("others", short), redis.Z{Member: "x"})
				})
				if redisx.IsShort(err) != short {
					t.Errorf("short %v: a value with others: %v", short, err)
				}
				for key, want := range map[string]int64{"alone": 1, "with": 1, "others": 1} {
					if short && key != "others" {
						want = 0
					}
					if got := client.Exists(ctx, fmt.Sprint(key, short)).Val(); got != want {
						t.Errorf("short %v: %s is there %d times, want %d", short, key, got, want)
					}
				}
			}
		})
	}
}

// fill makes servers short of memory: they may have a fifth more than what they use.
func fill(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		info, err := s.Client().Info(t.Context(), "memory").Result()
		used := regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(info)
		if err != nil || used == nil {
			t.Fatalf("%v: %s", err, info)
		}
		bytes, _ := strconv.Atoi(used[1])
		if err := s.Client().ConfigSet(t.Context(), "maxmemory", strconv.Itoa(bytes+bytes/5)).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
