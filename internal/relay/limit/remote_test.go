package limit

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/redistest"
)

// commands notes the commands that a client sends.
type commands struct {
	mu   sync.Mutex
	list []string
}

func (c *commands) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.mu.Lock()
		c.list = append(c.list, cmd.Name())
		c.mu.Unlock()
		return next(ctx, cmd)
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *commands) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.list)
}

// The peers' weakness: six reads for a check, and a search of all keys for every expense.
// Here a reservation is one script and so is a settlement, and their keys expire.
func TestOneScriptEach(t *testing.T) {
	server := redistest.Start(t)
	client := connect(t, server.URL())
	r := far(client, "0x12a", time.Hour, 100)
	w := today()
	total := fixed("total", 1000)
	g, _ := reserve(t, r, w, 5, total, opened("a", 100))
	settle(t, r, g, 0)

	log := &commands{}
	client.AddHook(log)
	g, _ = reserve(t, r, w, 5, total, opened("a", 100))
	settle(t, r, g, 3)
	if want := []string{"evalsha", "evalsha"}; !slices.Equal(log.list, want) {
		t.Errorf("commands %q, want %q", log.list, want)
	}
	// Whatever makes a key sees to its end.
	for _, name := range []string{"settled", "entered"} {
		late := far(client, name, time.Hour, 100)
		g, _ := reserve(t, late, w, 0, total)
		if name == "settled" {
			settle(t, late, g, 5)
		} else if err := late.enter(t.Context(), "p", &message{w, 1, map[string]int64{"total": 1}}); err != nil {
			t.Fatal(err)
		}
	}
	look := server.Client()
	keys, err := look.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	for _, key := range keys {
		left, err := look.PTTL(t.Context(), key).Result()
		if err != nil || left <= time.Hour || left > 3*time.Hour {
			t.Errorf("%s expires in %v, %v", key, left, err)
		}
		if !strings.HasPrefix(key, "hbarlimit:{") {
			t.Errorf("a key of ours is %s", key)
		}
	}
	if n := look.HLen(t.Context(), r.keys(w)[2]).Val() + look.ZCard(t.Context(), r.keys(w)[1]).Val(); n != 0 {
		t.Errorf("%d traces of settled claims are left", n)
	}
}

// Budgets of different networks do not mix, although they share a Redis.
func TestScopes(t *testing.T) {
	client := connect(t, redistest.Start(t).URL())
	w := today()
	for _, scope := range []string{"0x127", "0x128"} {
		_, a := reserve(t, far(client, scope, time.Hour, 100), w, 10, fixed("total", 10))
		if a.refused != granted {
			t.Errorf("%s has no budget of its own", scope)
		}
	}
}
