package locksim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// TestFaithful runs the lock's scripts, with random arguments, on the simulated Redis and on a real one, also without memory
// and on keys of another kind: the answers and what is in the keys are the same.
func TestFaithful(t *testing.T) {
	client := redistest.Start(t).Client()
	s := newStore(time.Now, func(string, string) {})
	sim := newInterpreter(s)
	defer sim.close()
	random := rand.New(rand.NewPCG(1, 2))
	scripts := map[string]string{}
	for _, name := range []string{"sync", "beat"} {
		text := must.Get(os.ReadFile(filepath.Join("..", "lua", name+".lua")))(t)
		scripts[name] = string(text)
	}
	one := func(list ...string) string { return list[random.IntN(len(list))] }
	keys := []string{"lock:{a}", "lock:queue:{a}", "lock:memory:{a}"}
	const hour = "3600000"
	ctx := t.Context()
	both := func(what string, words ...string) {
		t.Helper()
		args := make([]any, len(words))
		for i, w := range words {
			args[i] = w
		}
		want, wantErr := client.Do(ctx, args...).Result()
		got, gotErr := sim.execute(words)
		if state, ok := got.(status); ok {
			got = string(state)
		}
		if errors.Is(wantErr, redis.Nil) {
			wantErr = nil
		}
		if !same(got, want) || code(gotErr) != code(wantErr) {
			t.Fatalf("%s: %v, %v; Redis says %v, %v", what, got, gotErr, want, wantErr)
		}
	}
	micros := int64(1_700_000_000_000_000)
	outcomes := map[string]int{}
	for step := range 4000 {
		micros += random.Int64N(2000) * 1000
		now := fmt.Sprintf("{'%d','%d'}", micros/1_000_000, micros%1_000_000)
		session := func() string { return one("s1", "s2", "s3", "s4") }
		instance := func() string { return one("p", "q", "r") }
		number := func() string { return fmt.Sprint(random.IntN(6)) }
		fence := func() string { return fmt.Sprint(micros - random.Int64N(4_000_000)) }
		name, with := one("sync", "sync", "sync", "sync", "sync", "beat"), []string{instance(), hour, hour, hour}
		switch name {
		case "sync":
			if random.IntN(3) > 0 {
				with = append(with, session(), number(), fmt.Sprint(micros-random.Int64N(9000)), one("", "0", "2000", "900000"), one("0", "1", "2"))
			} else {
				with = append(with, "", "", "0", "", one("0", "1"))
			}
			if random.IntN(4) == 0 {
				with = append(with, one(fence(), turnOf(s)), session(), hour)
			} else {
				with = append(with, "", "", "")
			}
			with = append(with, one("0", fence(), turnOf(s), turnOf(s)))
			if random.IntN(2) == 0 {
				with = append(with, one("", number()), one("", fence(), turnOf(s)), one("", "1", "r", "a", "g"), "||")
			} else {
				with = append(with, "", "", "", "")
			}
			with = append(with, one("", "", number()), one("0", "0", fence(), turnOf(s)), one("", number()), one("1", "1", "0"))
			if random.IntN(6) == 0 {
				with = append(with, instance(), one("0", turnOf(s), fmt.Sprint(micros)), one("0", "1"))
			} else {
				with = append(with, "", "0", "0")
			}
		case "beat":
			with = []string{"settings", hour, "channel"}
		}
		text, on := scripts[name], keys
		if name == "beat" {
			on = []string{"lock:heartbeat:" + instance()}
		}
		switch random.IntN(60) {
		case 0:
			both("del", append([]string{"DEL"}, keys...)...)
		case 1:
			both("set", "SET", one(keys...), "something else")
		case 2:
			both("rpush", "DEL", keys[0])
			both("rpush", "RPUSH", keys[0], "something else")
		case 3, 4:
			if s.full = !s.full; s.full {
				limitMemory(ctx, t, client, "1")
			} else {
				limitMemory(ctx, t, client, "0")
			}
		}
		text = strings.ReplaceAll(text, "redis.call('TIME')", now)
		words := append([]string{"EVAL", text, fmt.Sprint(len(on))}, append(on, with...)...)
		both(fmt.Sprint("step ", step, ": ", name, " ", with), words...)
		for _, key := range keys {
			if want, got := stored(ctx, client, key), s.shown(key); want != got {
				t.Fatalf("step %d, after %s %v: %s has %s; in Redis %s", step, name, with, key, got, want)
			}
			outcomes[s.shown(key)]++
		}
	}
	if len(outcomes) < 500 {
		t.Errorf("only %d states were reached", len(outcomes))
	}
}

func limitMemory(ctx context.Context, t *testing.T, client *redis.Client, most string) {
	t.Helper()
	must.Do(t, client.ConfigSet(ctx, "maxmemory", most).Err())
}

func code(err error) string {
	if err == nil {
		return ""
	}
	first, _, _ := strings.Cut(err.Error(), " ")
	return first
}

// same compares two replies; times to live may differ by what the test takes.
func same(a, b any) bool {
	x, ok := a.([]any)
	y, ok2 := b.([]any)
	if ok && ok2 {
		for i := range min(len(x), len(y)) {
			if !same(x[i], y[i]) {
				return false
			}
		}
		return len(x) == len(y)
	}
	n, ok := a.(int64)
	m, ok2 := b.(int64)
	if ok && ok2 && n > 3_000_000 && m > 3_000_000 {
		return true
	}
	return reflect.DeepEqual(a, b)
}

func stored(ctx context.Context, c *redis.Client, key string) string {
	life := c.PTTL(ctx, key).Val() > 0
	switch kind := c.Type(ctx, key).Val(); kind {
	case "string":
		return fmt.Sprint(life, kind, c.Get(ctx, key).Val())
	case "list":
		return fmt.Sprint(life, kind, c.LRange(ctx, key, 0, -1).Val())
	default:
		return kind
	}
}

func (s *store) shown(key string) string {
	v := s.get(key)
	if v == nil {
		return "none"
	}
	switch life := !v.expires.IsZero(); v.kind {
	case "string":
		return fmt.Sprint(life, v.kind, v.text)
	case "list":
		return fmt.Sprint(life, v.kind, v.list)
	default:
		return fmt.Sprint(life, v.kind, v.list)
	}
}

// turnOf returns the fence of the present turn.
func turnOf(s *store) string {
	if v := s.get("lock:{a}"); v != nil && v.kind == "string" {
		if fields := strings.Split(v.text, "|"); len(fields) == 9 {
			return fields[2]
		}
	}
	return "1"
}
