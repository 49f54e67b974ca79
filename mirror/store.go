package mirror

import (
	"context"
	"encoding/hex"
)

// Store keeps what can never change beyond this process, for all relays that share it. It may lose anything, and
// it must fail fast.
type Store interface {
	// Get returns what was put under a key, or nil. What it returns is the caller's.
	Get(ctx context.Context, key string) []byte
	// Put keeps a value, some time later or not at all. It does not wait, and the value
	// must not be changed after it.
	Put(key string, value []byte)
	// Enabled tells whether it keeps anything. If not, nobody needs to encode records for it.
	Enabled() bool
}

// noStore is a Store that keeps nothing.
type noStore struct{}

func (noStore) Get(context.Context, string) []byte { return nil }
func (noStore) Put(string, []byte)                 {}
func (noStore) Enabled() bool                      { return false }

// Kinds of what is kept in the store.
const (
	kindBlock   = "b"
	kindHash    = "h" // a block by its hash
	kindResult  = "r"
	kindResults = "l"
	kindLogs    = "g"
	kindAlias   = "a"
)

// stored looks for a record in the store. A record that cannot be read counts as missing.
func stored[T any](ctx context.Context, c *Client, kind, key string) *T {
	if !c.store.Enabled() {
		return nil
	}
	chain := c.chain(ctx)
	if chain == "" {
		return nil
	}
	raw := c.store.Get(ctx, chain+":"+kind+":"+key)
	if raw == nil {
		return nil
	}
	value := decodeRecord[T](raw)
	if value == nil {
		c.unreadable.Inc()
	}
	return value
}

// store puts a record into the store.
func store(c *Client, kind, key string, value any) {
	if !c.store.Enabled() {
		return
	}
	if chain := c.chainKey.Load(); chain != nil {
		if record, err := encodeRecord(value); err == nil { // what is read can be written
			c.store.Put(*chain+":"+kind+":"+key, record)
		}
	}
}

// chain names the chain by its oldest block, so that networks that share a store, at the same time or one after
// the other, do not see each other's records. Empty: it is not known yet.
func (c *Client) chain(ctx context.Context) string {
	if key := c.chainKey.Load(); key != nil {
		return *key
	}
	oldest, err := c.EarliestBlock(ctx)
	if err != nil {
		return ""
	}
	key := hex.EncodeToString(oldest.Hash[:8])
	if generation := c.fetch.Generation(); generation != 0 { // the chain may have several histories
		key += "." + decimal(generation)
	}
	c.chainKey.Store(&key)
	return key
}
