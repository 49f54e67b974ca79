package mirror

import (
	"context"
	"errors"
	"time"

	"lockstep/mirror/fetch"
)

// longestPush bounds how long a mirror node that can push is asked to wait for a
// block before it says that there is none.
const longestPush = 5 * time.Second

// Head asks the mirror node for its newest block now, however recently another caller asked; the answer never
// goes back. ErrNotFound: there is no block at all.
func (c *Client) Head(ctx context.Context) (*Block, error) {
	b, err := c.readNewest(ctx)
	if err == nil {
		c.observe(b.Number)
	}
	return b, err
}

// Pushes tells whether NextBlocks waits for a block: the settings say that the mirror node pushes, and it has not
// proved unable to.
func (c *Client) Pushes() bool { return c.config.Push && !c.noPush.Load() }

// NextBlocks returns closed blocks from number first on, oldest first and as many as one page holds. The first
// one may have a higher number if the mirror node misses some. None means that there are none yet. Every call
// asks again; a mirror node that can push gets some seconds to wait for a block.
func (c *Client) NextBlocks(ctx context.Context, first uint64) ([]*Block, error) {
	found, err := c.nextPage(ctx, first)
	if errors.Is(err, ErrNotFound) && c.Pushes() {
		c.log.WarnContext(ctx, "the mirror node cannot push new blocks; it is polled instead", "setting", "MIRROR_NODE_PUSH_ENABLED")
		c.noPush.Store(true)
		found, err = c.nextPage(ctx, first)
	}
	if err != nil {
		return nil, err
	}
	for i, b := range found {
		if !b.closed() || b.Number < first {
			found = found[:i]
			break
		}
		c.keepBlock(ctx, b)
	}
	if len(found) > 0 {
		c.observe(found[len(found)-1].Number)
	}
	return found, nil
}

func (c *Client) nextPage(ctx context.Context, first uint64) ([]*Block, error) {
	var path query
	q := fetch.Request{Label: "blocks"}
	if c.Pushes() {
		wait := min(longestPush, c.config.Timeout.Duration()/2)
		path.add("from", decimal(first))
		path.add("wait", decimal(uint64(wait.Milliseconds())))
		q = fetch.Request{Label: "devnet/blocks", Outside: true, Path: "devnet/blocks" + path.String(), Waits: true}
	} else {
		path.add("block.number", "gte:"+decimal(first))
		path.page(c, Ascending)
		q.Path = "blocks" + path.String()
	}
	found, err := ask(ctx, c, q, c.blockList("").readPage)
	if err != nil {
		return nil, err
	}
	return found.value.items, nil
}
