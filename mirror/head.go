package mirror

import (
	"context"
	"sync"
)

// newestBlock is the newest block that was read completely.
type newestBlock struct {
	mu    sync.Mutex
	block *Block // guarded by mu
}

// of returns the newest of a block and those before it.
func (n *newestBlock) of(b *Block) *Block {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.block == nil || b.Number >= n.block.Number {
		n.block = b
	}
	return n.block
}

func (n *newestBlock) forget() {
	n.mu.Lock()
	n.block = nil
	n.mu.Unlock()
}

// readNewest asks for the newest block. An older block than the known one comes from a mirror node that lags, so
// the known one stays the newest.
func (c *Client) readNewest(ctx context.Context) (*Block, error) {
	b, err := c.endBlock(ctx, Descending)
	if err != nil {
		return nil, err
	}
	newest := c.newest.of(b)
	if newest != b && c.fetch.ChainReset(ctx, b.Number) {
		newest = c.newest.of(b)
	}
	return newest, nil
}
