package mirror

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// tide is how far answers have gone. No later answer may fall behind it, whichever
// mirror node gives it.
type tide struct {
	floor     atomic.Uint64 // the highest block that any answer told of
	confirmed atomic.Int64  // when an answer last told of that block, Unix nanoseconds

	mu  sync.Mutex
	top *Block // guarded by mu; the newest block that was read whole
}

// saw notes the highest block that an answer told of, and whether a caller learns it.
func (t *tide) saw(number uint64, told bool) {
	if told {
		raise(&t.floor, number)
	}
	if number >= t.floor.Load() {
		t.confirmed.Store(time.Now().UnixNano())
	}
}

// newest returns the newest of the block and those before it.
func (t *tide) newest(b *Block) *Block {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.top == nil || b.Number >= t.top.Number {
		t.top = b
	}
	return t.top
}

// ebb forgets how far answers went.
func (t *tide) ebb(to uint64) {
	t.mu.Lock()
	t.top = nil
	t.mu.Unlock()
	t.floor.Store(to)
	t.confirmed.Store(time.Now().UnixNano())
}

// newest asks for the newest block. One that is older than what was known before is
// from a mirror node that lags, and the known one stays the newest.
func (c *Client) newest(ctx context.Context) (*Block, error) {
	b, err := c.endBlock(ctx, Descending)
	if err != nil {
		return nil, err
	}
	newest := c.tide.newest(b)
	if newest != b && c.sank(ctx, b.Number) {
		newest = c.tide.newest(b)
	}
	return newest, nil
}

// sank tells whether what is known to exist was not seen for so long that it must be
// gone: a test network can be reset.
func (c *Client) sank(ctx context.Context, head uint64) bool {
	hold := c.config.HeadHold.Duration()
	if time.Since(time.Unix(0, c.tide.confirmed.Load())) < hold || head >= c.tide.floor.Load() {
		return false
	}
	c.reset(ctx, head, "the newest block was not seen for long")
	return true
}

// reset forgets a chain that is no more.
func (c *Client) reset(ctx context.Context, head uint64, why string) {
	c.log.WarnContext(ctx, "the network was reset: everything known of it is forgotten", "reason", why, "known", c.tide.floor.Load(), "head", head)
	c.tide.ebb(head)
	for _, u := range c.upstreams {
		u.head.Store(0)
	}
	c.Forget()
}
