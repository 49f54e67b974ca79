package mirror

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
	"lockstep/mirror/fetch"
)

// Block is a record file: about two seconds of the network's work. It is final and must not be changed.
type Block struct {
	Number     uint64      `json:"number"`
	Hash       common.Hash `json:"hash"`          // the first 32 of 48 bytes
	ParentHash common.Hash `json:"previous_hash"` // the first 32 of 48 bytes
	Period     `json:"timestamp"`
	Count      uint64 `json:"count"` // all transactions, not only those of the EVM
	GasUsed    uint64 `json:"gas_used"`
	Size       uint64 `json:"size"`         // bytes
	Bloom      []byte `json:"logs_bloom"`   // 256 bytes; empty when the block has no logs or the mirror node does not know
	HAPI       string `json:"hapi_version"` // protocol version, such as 0.69.0; may be empty
}

// HasLogs tells whether the block's bloom says that contracts left logs in it. Logs of token transfers may be
// there even if it does not.
func (b *Block) HasLogs() bool {
	return slices.ContainsFunc(b.Bloom, func(bits byte) bool { return bits != 0 })
}

// Period is a closed interval of consensus time.
type Period struct {
	From hedera.Timestamp `json:"from"`
	To   hedera.Timestamp `json:"to"`
}

func (p Period) add(q *query) {
	if p.From != (hedera.Timestamp{}) {
		q.add("timestamp", "gte:"+p.From.String())
	}
	if p.To != (hedera.Timestamp{}) {
		q.add("timestamp", "lte:"+p.To.String())
	}
}

// closed tells whether the block is whole.
func (b *Block) closed() bool { return b.To != (hedera.Timestamp{}) }

// apart is how far mirror nodes behind one address may lag behind each other.
const apart = time.Minute

// Settled tells whether all of several mirror nodes behind one address have the block by now.
func (b *Block) Settled() bool { return time.Since(b.To.Time()) > apart }

// is tells whether the block has a number or a hash, as paths have them.
func (b *Block) is(id string) bool {
	return b.Hash != (common.Hash{}) && (id == decimal(b.Number) || id == b.Hash.Hex())
}

// newest is the highest block that an answer names.
func (b *Block) newest() uint64 {
	if b.closed() {
		return b.Number
	}
	return 0
}

const blockBytes = 600

// LatestBlock returns the newest block; several callers share one request per freshness interval. It never
// returns an older block than before, nor an older one than any other answer told of. ErrNotFound: there is no
// block at all.
func (c *Client) LatestBlock(ctx context.Context) (*Block, error) {
	return c.head.get(ctx, c.readNewest)
}

// EarliestBlock returns the oldest block that the mirror node has.
func (c *Client) EarliestBlock(ctx context.Context) (*Block, error) {
	return c.endBlock(ctx, Ascending)
}

func (c *Client) endBlock(ctx context.Context, order Order) (*Block, error) {
	l := c.blockList("blocks?limit=1&order=" + string(order))
	page, err := l.page(ctx, c, l.path)
	if err != nil {
		return nil, err
	}
	if len(page.items) == 0 {
		return nil, ErrNotFound
	}
	c.keepBlock(ctx, page.items[0])
	return page.items[0], nil
}

// BlockByNumber returns the block of that number, or ErrNotFound if it is not one of the chain as far as that was seen. For callers that walk through the chain it
// reads whole pages.
func (c *Client) BlockByNumber(ctx context.Context, number uint64) (*Block, error) {
	id := decimal(number)
	if b := c.knownBlock(ctx, kindBlock, id); b != nil {
		return b, nil
	}
	if c.blocks != nil && c.sequential.step(number) {
		if err := c.readBlocks(ctx, pageOf(number), pageOf(number)+preloaded); err != nil {
			return nil, err
		}
		if b, ok := c.blocks.get(id); ok {
			return b, nil
		}
	}
	b, err := c.readBlock(ctx, id)
	if err == ErrNotFound { //nolint:errorlint // exchange returns it bare
		err = c.notThere(ctx, number)
	}
	return b, err
}

// notThere tells what it means that there is no block of a number: nothing but ErrNotFound if it comes after the newest
// block that was seen, or before the first one. Else it is there, and the answer is of one of several mirror nodes
// behind an address, which lags.
func (c *Client) notThere(ctx context.Context, number uint64) error {
	if newest := c.newest.Load(); newest == nil || number > newest.Number {
		return ErrNotFound
	}
	first, err := c.EarliestBlock(ctx)
	switch {
	case absent(err) != nil:
		return err
	case err != nil || number < first.Number:
		return ErrNotFound
	}
	return &Error{Status: http.StatusServiceUnavailable, Message: "the mirror node does not show a block that it has told of"}
}

// CachedBlock returns the block of that number if this process keeps it, for example after Preload.
func (c *Client) CachedBlock(number uint64) (block *Block, ok bool) {
	return c.blocks.get(decimal(number))
}

// BlockByHash returns the block whose hash begins with these 32 bytes, or
// ErrNotFound.
func (c *Client) BlockByHash(ctx context.Context, hash common.Hash) (*Block, error) {
	if b := c.knownBlock(ctx, kindHash, hash.Hex()); b != nil {
		return b, nil
	}
	return c.readBlock(ctx, hash.Hex())
}

// knownBlock looks for a block in the cache and the store; nil if neither has it.
func (c *Client) knownBlock(ctx context.Context, kind, id string) *Block {
	if b, ok := c.blocks.get(id); ok {
		return b
	}
	b := stored[Block](ctx, c, kind, id)
	if b == nil || !b.is(id) {
		return nil
	}
	c.learn(b.Number)
	c.keepBlock(ctx, b)
	return b
}

func (c *Client) readBlock(ctx context.Context, id string) (*Block, error) {
	b, err := getOf(ctx, c, "blocks/{hashOrNumber}", "blocks/"+id, func(b *Block) bool { return b.is(id) })
	if err != nil {
		return nil, err
	}
	c.observe(b.Number)
	c.keepBlock(ctx, b)
	return b, nil
}

func (c *Client) keepBlock(ctx context.Context, b *Block) {
	if !b.closed() {
		return
	}
	switch known, ok := c.blocks.get(decimal(b.Number)); {
	case ok && known.Hash == b.Hash:
		return
	case ok:
		c.fetch.Reset(ctx, b.Number, "a block has changed")
	}
	c.newer(b)
	c.blocks.put(decimal(b.Number), b, blockBytes)
	c.blocks.put(b.Hash.Hex(), b, blockBytes)
	store(c, kindBlock, decimal(b.Number), b)
	store(c, kindHash, b.Hash.Hex(), b)
}

// Blocks lists the blocks from first to last, both included, in ascending order.
func (c *Client) Blocks(ctx context.Context, first, last uint64) iter.Seq2[*Block, error] {
	var q query
	q.add("block.number", "gte:"+decimal(first))
	q.add("block.number", "lte:"+decimal(last))
	q.page(c, Ascending)
	return c.blockList("blocks"+q.String()).items(ctx, c)
}

// preloaded is how many blocks make a page of the chain, since callers usually ask for the following blocks next.
// Pages begin at its multiples, so that callers of neighbouring blocks share one.
const preloaded = 25

// pageOf is the first block of the page that a block is on.
func pageOf(number uint64) uint64 { return number - number%preloaded }

// Preload reads blocks into the cache with one request, unless the first and the last are there or the blocks are
// many. Their neighbours come with them. Blocks that do not exist are no error.
func (c *Client) Preload(ctx context.Context, first, last uint64) error {
	has := func(number uint64) bool {
		_, ok := c.CachedBlock(number)
		return ok
	}
	missing := first
	if has(first) {
		missing = last
	}
	if c.blocks == nil || first == last || last-missing >= preloaded || has(missing) {
		return nil
	}
	if missing == first && has(last) {
		last = first
	}
	return c.readBlocks(ctx, pageOf(missing), pageOf(last)+preloaded)
}

// readBlocks reads the blocks from one number up to another into the cache.
func (c *Client) readBlocks(ctx context.Context, from, to uint64) error {
	l := c.blockList("blocks?block.number=gte:" + decimal(from) + "&limit=" + decimal(to-from) + "&order=asc")
	page, err := l.page(ctx, c, l.path)
	if err != nil {
		return absent(err)
	}
	for _, b := range page.items {
		c.keepBlock(ctx, b)
	}
	if n := len(page.items); n > 0 {
		c.observe(page.items[n-1].Number)
	}
	return nil
}

func (c *Client) blockList(path string) list[Block] {
	return list[Block]{label: "blocks", path: path, member: "blocks", maxPages: c.config.MaxBlockPages}
}

// observe notes that a block exists. A block beyond the shared newest block outdates that block, since no answer
// may lie beyond the head that is told next.
func (c *Client) observe(number uint64) {
	if head, ok := c.head.peek(); ok && number > head.Number {
		c.head.forget()
	}
}

// learn notes a block that another relay knows. Answers must not lag behind it, either.
func (c *Client) learn(number uint64) {
	c.fetch.Raise(number)
	c.observe(number)
}

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

// sequential notices that blocks are asked for one after the other, as indexers do, possibly
// several at once.
type sequential struct {
	mu    sync.Mutex
	last  uint64 // guarded by mu; the block that was asked for last
	steps int    // guarded by mu; in a row
}

const (
	stride    = 32 // the maximum length of a step
	manySteps = 2  // steps in a row that count as sequential reads
)

// step notes that a block is asked for, and tells whether this is part of sequential reads.
func (s *sequential) step(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ahead := number - s.last; {
	case number == s.last:
	case number > s.last && ahead <= stride:
		s.steps++
	case number < s.last && s.last-number <= stride: // the request for a later block overtook this one
		return s.steps >= manySteps
	default:
		s.steps = 0
	}
	s.last = number
	return s.steps >= manySteps
}

// newer returns the newest of a block and of all that were read completely.
func (c *Client) newer(b *Block) *Block {
	for {
		known := c.newest.Load()
		if known != nil && b.Number < known.Number {
			return known
		}
		if c.newest.CompareAndSwap(known, b) {
			return b
		}
	}
}

// readNewest asks for the newest block. An older block than the known one, or none, comes from a mirror node that lags,
// so the known one stays the newest.
func (c *Client) readNewest(ctx context.Context) (*Block, error) {
	b, err := c.endBlock(ctx, Descending)
	if err == ErrNotFound { //nolint:errorlint // endBlock returns it bare
		if known := c.newest.Load(); known != nil && !c.fetch.ChainReset(ctx, 0) {
			return known, nil
		}
	}
	if err != nil {
		return nil, err
	}
	newest := c.newer(b)
	if newest != b && c.fetch.ChainReset(ctx, b.Number) {
		newest = c.newer(b)
	}
	return newest, nil
}
