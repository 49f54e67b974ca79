package txmgr_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"lockstep/txmgr"
)

// pool is a chain in memory that treats nonces as Ethereum does: what was sent waits until a block
// takes it, one transaction waits at a nonce, and another one takes its place if it pays a tenth
// more. Tests act on it as the rest of the world.
type pool struct {
	wire
	mu        sync.Mutex
	money     map[string]int64
	next      map[string]uint64            // of an account, after the newest block
	waiting   map[string]map[uint64]wireTx // by account and nonce
	blocks    [][]wireTx
	depth     uint64
	delegated map[string]bool
	dev       bool
	first     string                        // tells its first block; "": the usual one
	named     int                           // how often that was asked for
	forked    uint64                        // from this block on the chain has other blocks; 0: from none
	refuse    func(wireTx) *txmgr.SendError // what a node has against a transaction; nil: nothing
	pruned    atomic.Bool                   // nodes keep no state that tells who used a nonce
}

// wireTx is a transaction on the wire of a chain in memory.
type wireTx struct {
	From, To  string
	Nonce     uint64
	Value     int64
	Data      []byte
	Max, Tip  int64  `json:",omitempty"`
	Until     uint64 `json:",omitempty"`
	Signature []byte `json:",omitempty"`
}

func (t wireTx) digest() []byte {
	t.Signature = nil
	text, _ := json.Marshal(t)
	sum := sha256.Sum256(text)
	return sum[:]
}

func (t wireTx) hash() string { return hex.EncodeToString(t.digest()) }

// wire is the part of a chain in memory that asks nobody: accounts have names, and keys of ed25519.
type wire struct {
	keys map[string]ed25519.PublicKey
}

var wireName = regexp.MustCompile(`^[a-z0-9]+(\.[a-z0-9]+)*$`)

func (w wire) Account(text string) (string, error) {
	if !wireName.MatchString(text) {
		return "", errors.New("not a name")
	}
	return text, nil
}

func (w wire) Seal(u txmgr.Unsigned, signature []byte) (txmgr.Signed, error) {
	tx := u.Form.(wireTx)
	tx.Signature = signature
	raw, err := json.Marshal(tx)
	if err != nil {
		return txmgr.Signed{}, err
	}
	read, err := w.Decode(raw)
	return read.Signed, err
}

func (w wire) Decode(raw []byte) (txmgr.Decoded, error) {
	_, read, err := w.read(raw)
	return read, err
}

// keyed is an account's key.
type keyed struct {
	name string
	key  ed25519.PrivateKey
}

func keyOf(name string) keyed {
	seed := sha256.Sum256([]byte(strings.Repeat(name, 3)))
	return keyed{name, ed25519.NewKeyFromSeed(seed[:])}
}

func (k keyed) Account() string { return k.name }

func (k keyed) Sign(_ context.Context, unsigned []byte) ([]byte, error) {
	return ed25519.Sign(k.key, unsigned), nil
}

func (w wire) read(raw []byte) (tx wireTx, read txmgr.Decoded, err error) {
	if err := json.Unmarshal(raw, &tx); err != nil {
		return tx, read, err
	}
	if key := w.keys[tx.From]; len(key) == 0 || !ed25519.Verify(key, tx.digest(), tx.Signature) {
		return tx, read, errors.New("the signature is not the account's")
	}
	return tx, txmgr.Decoded{
		Signed: txmgr.Signed{Hash: tx.hash(), Raw: raw}, Signer: tx.From, Nonce: tx.Nonce,
		Call: txmgr.Call{From: tx.From, To: tx.To, Value: big.NewInt(tx.Value), Data: tx.Data, Gas: wireGas},
		Fees: txmgr.Fees{Max: big.NewInt(tx.Max), Tip: big.NewInt(tx.Tip)},
	}, nil
}

func (w wire) Renew(context.Context, txmgr.Signed, string) (txmgr.Signed, error) {
	return txmgr.Signed{}, txmgr.ErrNotPossible
}

// each offers transactions one by one.
func (c *node) each(ctx context.Context, list []txmgr.Signed, take func(wireTx) error) []error {
	out := make([]error, len(list))
	for n, s := range list {
		tx, _, err := c.read(s.Raw)
		if err != nil {
			out[n] = &txmgr.SendError{Class: txmgr.ClassFatal, Text: err.Error()}
			continue
		}
		answer, err := answered(ctx, c, func() error { return take(tx) })
		if err != nil {
			answer = &txmgr.SendError{Class: txmgr.ClassTransport, Text: err.Error()}
		}
		out[n] = answer
	}
	return out
}

// answered is what an endpoint says, unless it does not answer.
func answered[T any](ctx context.Context, c *node, say func() T) (answer T, err error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return answer, err
	}
	defer unlock()
	return say(), nil
}

// marketOf says that all speeds cost the same.
func marketOf(base *big.Int, fees txmgr.Fees) txmgr.Market {
	return txmgr.Market{BaseFee: base, At: 1 << 61, Tips: map[string]txmgr.Fees{txmgr.SpeedSlow: fees, txmgr.SpeedStandard: fees, txmgr.SpeedFast: fees}}
}

const (
	poolMoney   = 1_000_000_000
	poolBaseFee = 1000
	wireGas     = 7
)

func newPool(keys ...keyed) *pool {
	p := &pool{
		wire: wire{map[string]ed25519.PublicKey{}}, money: map[string]int64{}, next: map[string]uint64{}, waiting: map[string]map[uint64]wireTx{}, blocks: [][]wireTx{nil},
		delegated: map[string]bool{},
	}
	for _, k := range keys {
		p.add(k)
	}
	return p
}

// add makes an account.
func (p *pool) add(k keyed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[k.name], p.money[k.name] = k.key.Public().(ed25519.PublicKey), poolMoney
	p.waiting[k.name] = map[uint64]wireTx{}
}

// mine makes a block of all that can be executed.
func (p *pool) mine() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var block []wireTx
	for account, waiting := range p.waiting {
		for {
			tx, found := waiting[p.next[account]]
			if !found {
				break
			}
			delete(waiting, tx.Nonce)
			p.next[account]++
			p.money[tx.From] -= tx.Value
			p.money[tx.To] += tx.Value
			block = append(block, tx)
		}
	}
	p.blocks = append(p.blocks, block)
}

// drop makes every node forget what waits at a nonce.
func (p *pool) drop(account string, nonce uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting[account], nonce)
}

// foreign puts somebody else's transaction in the place of what waits at a nonce.
func (p *pool) foreign(account string, nonce uint64, price int64) wireTx {
	p.mu.Lock()
	defer p.mu.Unlock()
	tx := wireTx{From: account, To: account, Nonce: nonce, Data: []byte("foreign"), Max: price, Tip: price}
	p.waiting[account][nonce] = tx
	return tx
}

// at returns the hash of what waits at a nonce, "" for nothing.
func (p *pool) at(account string, nonce uint64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tx, found := p.waiting[account][nonce]; found {
		return tx.hash()
	}
	return ""
}

// ran counts executed transactions by their data.
func (p *pool) ran() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{}
	for _, block := range p.blocks {
		for _, tx := range block {
			out[string(tx.Data)]++
		}
	}
	return out
}

func (p *pool) refusing(why func(wireTx) *txmgr.SendError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = why
}

// fork puts other blocks in the place of those from a number on; with 0 the old ones are back.
func (p *pool) fork(from uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forked = from
}

func (p *pool) hash(n uint64) string {
	if p.forked != 0 && n >= p.forked {
		return "other " + blockHash(n)
	}
	return blockHash(n)
}

func blockHash(n uint64) string {
	sum := sha256.Sum256(fmt.Append(nil, "block ", n))
	return hex.EncodeToString(sum[:])
}

// executed finds a transaction in the blocks.
func (p *pool) executed(is func(wireTx) bool) (wireTx, uint64, bool) {
	for n, block := range p.blocks {
		for _, tx := range block {
			if is(tx) {
				return tx, uint64(n), true
			}
		}
	}
	return wireTx{}, 0, false
}

// inLine is the nonce after all that waits without a gap.
func (p *pool) inLine(account string) uint64 {
	n := p.next[account]
	for {
		if _, found := p.waiting[account][n]; !found {
			return n
		}
		n++
	}
}

func (p *pool) take(tx wireTx) error {
	say := func(class txmgr.Class, text string) error {
		return &txmgr.SendError{Class: class, Endpoint: "node", Text: text}
	}
	if p.refuse != nil {
		if err := p.refuse(tx); err != nil {
			return err
		}
	}
	old, found := p.waiting[tx.From][tx.Nonce]
	switch {
	case tx.Nonce < p.next[tx.From]:
		return say(txmgr.ClassNonceUsed, "nonce too low")
	case found && old.hash() == tx.hash():
		return say(txmgr.ClassKnown, "already known")
	case found && (tx.Max*10 < old.Max*11 || tx.Tip*10 < old.Tip*11):
		return say(txmgr.ClassSlotTaken, "replacement transaction underpriced")
	}
	p.waiting[tx.From][tx.Nonce] = tx
	return nil
}

// node is an endpoint of a chain in memory.
type node struct {
	*pool
	down   atomic.Bool
	mute   atomic.Bool   // it tells nobody's nonce
	behind atomic.Uint64 // blocks that it does not show yet
	asked  atomic.Int64  // questions that it answered
	vain   atomic.Int64  // questions for blocks that it does not show
	late   atomic.Uint64 // how many blocks its receipts are behind its other answers, as behind a balancer
	shown  atomic.Int64  // questions for receipts that it answered while they were behind
}

var errDown = errors.New("nobody answers")

// ask locks the pool if the node answers.
func (c *node) ask(ctx context.Context) (unlock func(), err error) {
	if c.down.Load() || ctx.Err() != nil {
		return nil, errDown
	}
	c.asked.Add(1)
	c.mu.Lock()
	return c.mu.Unlock, nil
}

func (c *node) ID() string { return "pool" }

// head is the newest block but some.
func (c *node) head(but uint64) txmgr.Head {
	n := uint64(len(c.blocks)-1) - but
	return txmgr.Head{Number: n, Hash: c.hash(n), Time: int64(n) * 1_000_000}
}

func (c *node) newest() txmgr.Head { return c.head(c.behind.Load()) }

func (c *node) Identity(ctx context.Context) (string, error) {
	return answered(ctx, c, func() string {
		c.named++
		if c.first != "" {
			return c.first
		}
		return "the pool's chain"
	})
}

func (c *node) Head(ctx context.Context) (txmgr.Head, error) {
	return answered(ctx, c, c.newest)
}

func (c *node) BlockHash(ctx context.Context, number, above uint64) (string, error) {
	return answered(ctx, c, func() string {
		if number+above > c.newest().Number {
			c.vain.Add(1)
			return ""
		}
		return c.hash(number)
	})
}

func (c *node) Nonces(ctx context.Context, account string) (txmgr.Nonces, error) {
	if c.mute.Load() {
		return txmgr.Nonces{}, errDown
	}
	return answered(ctx, c, func() txmgr.Nonces { return txmgr.Nonces{Latest: c.next[account], Head: c.newest()} })
}

func (c *node) HighestPending(ctx context.Context, account string) (latest, pending uint64, err error) {
	both, err := answered(ctx, c, func() [2]uint64 { return [2]uint64{c.next[account], c.inLine(account)} })
	return both[0], both[1], err
}

func (c *node) Balance(ctx context.Context, account string) (*big.Int, error) {
	return answered(ctx, c, func() *big.Int { return big.NewInt(c.money[account]) })
}

func (c *node) Delegated(ctx context.Context, account string) (bool, error) {
	return answered(ctx, c, func() bool { return c.delegated[account] })
}

func (c *node) Simulate(ctx context.Context, call txmgr.Call) (txmgr.Simulation, error) {
	return answered(ctx, c, func() txmgr.Simulation {
		if call.To == "broken" {
			return txmgr.Simulation{Reason: "it is broken"}
		}
		if !call.Funded && call.Value != nil && call.Value.Cmp(big.NewInt(c.money[call.From])) > 0 {
			return txmgr.Simulation{Reason: "insufficient funds for transfer"}
		}
		return txmgr.Simulation{Success: true, Gas: wireGas}
	})
}

func (c *node) Receipts(ctx context.Context, list []txmgr.Signed) (txmgr.Head, []txmgr.Lookup, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return txmgr.Head{}, nil, err
	}
	defer unlock()
	head, shown := c.newest(), uint64(len(c.blocks))
	if late := min(c.late.Load(), head.Number); late > 0 {
		head = c.head(late)
		shown = head.Number
		c.shown.Add(1)
	}
	out := make([]txmgr.Lookup, len(list))
	for n, s := range list {
		out[n] = txmgr.Lookup{Hash: s.Hash, Tag: s.Tag}
		if _, block, found := c.executed(func(tx wireTx) bool { return tx.hash() == s.Hash }); found && block <= shown {
			out[n].Receipt = &txmgr.Receipt{Hash: s.Hash, Block: block, BlockHash: c.hash(block), Success: true, GasUsed: wireGas, GasPrice: big.NewInt(poolBaseFee)}
		}
	}
	return head, out, nil
}

func (c *node) Consumer(ctx context.Context, account string, nonce uint64) (*txmgr.Consumer, error) {
	if c.pruned.Load() {
		return nil, errors.New("missing trie node")
	}
	return answered(ctx, c, func() *txmgr.Consumer {
		tx, block, found := c.executed(func(tx wireTx) bool { return tx.From == account && tx.Nonce >= nonce })
		if !found {
			return nil
		}
		return &txmgr.Consumer{Hash: tx.hash(), Block: block, BlockHash: c.hash(block), Head: c.newest()}
	})
}

// poolNode is an endpoint of a pool: a txmgr.Chain.
type poolNode struct{ node }

func (c *poolNode) Traits() txmgr.Traits {
	return txmgr.Traits{Mempool: true, Depth: c.depth, InFlight: 16, Dev: c.dev, Unit: txmgr.Unit{Name: "COIN", Decimals: 9}}
}

func (c *poolNode) Pool(ctx context.Context, account string, list []txmgr.Signed) (uint64, []bool, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer unlock()
	held := make([]bool, len(list))
	for n, s := range list {
		is := func(tx wireTx) bool { return tx.hash() == s.Hash }
		_, _, held[n] = c.executed(is)
		for _, tx := range c.waiting[account] {
			held[n] = held[n] || is(tx)
		}
	}
	return c.inLine(account), held, nil
}

func (c *poolNode) Market(ctx context.Context) (txmgr.Market, error) {
	return answered(ctx, &c.node, func() txmgr.Market {
		return marketOf(big.NewInt(poolBaseFee), txmgr.Fees{Max: big.NewInt(2*poolBaseFee + 100), Tip: big.NewInt(100)})
	})
}

func (c *poolNode) Prepare(ctx context.Context, d txmgr.Draft) (txmgr.Unsigned, error) {
	return answered(ctx, &c.node, func() txmgr.Unsigned {
		tx := wireTx{From: d.Signer, To: d.To, Nonce: d.Nonce, Value: d.Value.Int64(), Data: d.Data, Max: d.Fees.Max.Int64(), Tip: d.Fees.Tip.Int64()}
		return txmgr.Unsigned{Bytes: tx.digest(), Form: tx}
	})
}

func (c *poolNode) Send(ctx context.Context, list []txmgr.Signed) []error {
	return c.each(ctx, list, func(tx wireTx) error { return c.take(tx) })
}

func (c *poolNode) Expired(context.Context, txmgr.Signed) (bool, error) { return false, nil }
