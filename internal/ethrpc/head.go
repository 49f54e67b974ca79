package ethrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

const (
	// lagAfter is how long an endpoint may be without a block that another one has shown.
	lagAfter = 3 * time.Second
	// compareEvery is how often the heads of all endpoints are compared.
	compareEvery = 10 * time.Second
	// lagTold is how long an endpoint lags until that is worth telling: one that has each block a little later than another lags now and then.
	lagTold = 30 * time.Second
	// headsFor is how long what an endpoint showed is held against the others: chains may be reset.
	headsFor = time.Minute
)

// head is what an endpoint has shown of its newest block.
type head struct {
	shown
	mark, old shown // old was shown lagAfter ago or earlier, mark may become it
}

// shown is a block's number and when it was shown first.
type shown struct {
	number uint64
	at     time.Time
}

// show notes a head.
func (h *head) show(number uint64, now time.Time) {
	if number < h.number { // a chain that went back
		*h = head{}
	}
	if !h.at.IsZero() && number == h.number {
		return
	}
	h.shown = shown{number, now}
	if now.Sub(h.mark.at) >= lagAfter {
		h.old, h.mark = h.mark, h.shown
	}
}

// owed returns the block that every other endpoint should have by now.
func (h *head) owed(now time.Time) uint64 {
	if now.Sub(h.at) > headsFor {
		return 0
	}
	for _, s := range []shown{h.shown, h.mark, h.old} {
		if now.Sub(s.at) >= lagAfter {
			return s.number
		}
	}
	return 0
}

// headOf reads the number of the newest block from a call that asked for it.
func headOf(c *Call) (number uint64, asked, said bool) {
	switch {
	case c.Method == "eth_blockNumber":
		var text hexutil.Uint64
		said = c.err == nil && json.Unmarshal(c.result, &text) == nil
		return uint64(text), true, said
	case c.Method == "eth_getBlockByNumber" && len(c.Args) > 0 && c.Args[0] == "latest":
		var block struct {
			Number *hexutil.Uint64 `json:"number"`
		}
		if c.err != nil || json.Unmarshal(c.result, &block) != nil || block.Number == nil {
			return 0, true, false
		}
		return uint64(*block.Number), true, true
	default:
		return 0, false, false
	}
}

// learnHead notes what answers show of the endpoint's head.
func (e *Endpoint) learnHead(ctx context.Context, calls []*Call) {
	for _, c := range calls {
		if number, _, said := headOf(c); said {
			e.Showed(ctx, number)
		}
	}
}

// askHead has the endpoint show its head. A failure makes it rest.
func (e *Endpoint) askHead(ctx context.Context) {
	if e.other == nil {
		_ = e.Do(ctx, Ask(nil, "eth_blockNumber"))
		return
	}
	switch number, err := e.other(ctx); {
	case err == nil:
		e.well(ctx)
		e.Showed(ctx, number)
	case !errors.Is(ctx.Err(), context.Canceled):
		e.failed(ctx, lost(e.name, err))
	}
}

// Showed notes the endpoint's newest block, and whether it lacks one that another endpoint which works had shown a while before.
func (e *Endpoint) Showed(ctx context.Context, number uint64) {
	now := time.Now()
	owed := e.pool.owed(e, now)
	e.mu.Lock()
	e.head.show(number, now)
	switch e.told = now; {
	case number >= owed:
		e.behind = time.Time{}
	case e.behind.IsZero():
		e.behind = now
	}
	long := !e.behind.IsZero() && now.Sub(e.behind) >= lagTold
	e.mu.Unlock()
	if long {
		e.lags.Down(ctx, fmt.Errorf("its newest block is %d, and another endpoint has had block %d for a while", number, owed))
	} else {
		e.lags.Up(ctx)
	}
}

// Head returns the newest block that the endpoint has shown, and when it showed it first; a zero time if it has shown none.
func (e *Endpoint) Head() (number uint64, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.head.number, e.head.at
}

// Highest returns the highest head of all endpoints, and when it was shown first.
func (c *Client) Highest() (number uint64, at time.Time) {
	for _, e := range c.endpoints {
		if n, shown := e.Head(); !shown.IsZero() && (at.IsZero() || n > number) {
			number, at = n, shown
		}
	}
	return number, at
}

// owed returns the block that an endpoint should have by now, since another one that works showed it a while ago.
func (c *Client) owed(e *Endpoint, now time.Time) (owed uint64) {
	for _, other := range c.endpoints {
		if other == e {
			continue
		}
		other.mu.Lock()
		if other.last == nil {
			owed = max(owed, other.head.owed(now))
		}
		other.mu.Unlock()
	}
	return owed
}

// Behind returns since when the endpoint has lacked, each time that it told its newest block, one that another had; zero if it has not. What it told long ago counts no more.
func (e *Endpoint) Behind() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.told) > headsFor {
		return time.Time{}
	}
	return e.behind
}

// sameChain refuses an endpoint that has named another chain.
func (e *Endpoint) sameChain(q *Call) *Error {
	var id hexutil.Uint64
	switch err := json.Unmarshal(q.result, &id); {
	case err != nil || empty(q.result):
		return &Error{Class: Broken, Endpoint: e.name, Text: "it does not say which chain it serves"}
	case uint64(id) != e.cfg.ChainID:
		return &Error{Class: WrongChain, Endpoint: e.name, Text: fmt.Sprintf("it serves chain %d, not chain %d", uint64(id), e.cfg.ChainID)}
	default:
		return nil
	}
}

// anchor is a block that cannot be replaced any more.
type anchor struct {
	number uint64
	hash   common.Hash
}

// Anchor names a block of the chain that cannot be replaced any more; the zero hash: there is none. Where there are several endpoints, each shows once which block it has in that place.
// One that has another is on another fork, and is asked for nothing while any endpoint may have this one. If all have another, the chain itself is on that fork: they are asked as ever, and what
// follows from it is the caller's to say. An endpoint that has no block there yet says nothing by that.
func (c *Client) Anchor(number uint64, hash common.Hash) {
	if hash == (common.Hash{}) {
		c.anchor.Store(nil)
		return
	}
	next := anchor{number, hash}
	if now := c.anchor.Load(); now == nil || *now != next {
		c.anchor.Store(&next)
	}
}

// onFork refuses an endpoint that has another block in the anchor's place, as far as it was asked. One that was refused is asked again after its rest.
func (e *Endpoint) onFork(ctx context.Context) *Error {
	a := e.pool.anchor.Load()
	if a == nil || len(e.pool.endpoints) == 1 {
		return nil
	}
	shown, compared := e.at(a)
	if compared && !a.contradicted(shown) || e.pool.forked(a) {
		return nil
	}
	q := Ask(nil, "eth_getBlockByNumber", hexutil.Uint64(a.number), false)
	if _, err := e.exchange(ctx, []*Call{q}); err != nil {
		return err
	}
	return e.place(a, q)
}

// sameFork refuses an endpoint that has turned to another fork since it was compared, where an answer shows it.
func (e *Endpoint) sameFork(c *Call) *Error {
	a := e.pool.anchor.Load()
	if a == nil || len(e.pool.endpoints) == 1 || c.Method != "eth_getBlockByNumber" || c.err != nil || fmt.Sprint(c.Args[0]) != hexutil.EncodeUint64(a.number) {
		return nil
	}
	return e.place(a, c)
}

// place notes which block the endpoint has in the anchor's place, by an answer, and refuses the endpoint for another than the anchor while any other may have that.
func (e *Endpoint) place(a *anchor, c *Call) *Error {
	var block struct {
		Number *hexutil.Uint64 `json:"number"`
		Hash   common.Hash     `json:"hash"`
	}
	var shown common.Hash
	if c.err == nil && json.Unmarshal(c.result, &block) == nil && block.Number != nil && uint64(*block.Number) == a.number {
		shown = block.Hash
	}
	e.mu.Lock()
	e.compared, e.shown = a, shown
	e.mu.Unlock()
	if !a.contradicted(shown) || e.pool.forked(a) {
		return nil
	}
	return &Error{Class: OtherFork, Endpoint: e.name, Text: fmt.Sprintf("it is on another fork: its block %d is %s, and %s cannot be replaced", a.number, shown, a.hash)}
}

// contradicted reports whether a block that was shown in the anchor's place is another.
func (a *anchor) contradicted(shown common.Hash) bool {
	return shown != (common.Hash{}) && shown != a.hash
}

// at returns the block that the endpoint has shown in the anchor's place, if it was asked for it.
func (e *Endpoint) at(a *anchor) (shown common.Hash, compared bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.shown, e.compared == a
}

// forked reports whether every endpoint has shown another block in the anchor's place.
func (c *Client) forked(a *anchor) bool {
	for _, e := range c.endpoints {
		if shown, compared := e.at(a); !compared || !a.contradicted(shown) {
			return false
		}
	}
	return true
}
