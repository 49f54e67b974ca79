package txmgr_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
	"sync"
	"sync/atomic"

	"lockstep/txmgr"
)

// pool is a chain in memory that treats nonces as Ethereum does: what was sent waits until a block
// takes it, one transaction waits at a nonce, and another one takes its place if it pays a tenth
// more. Tests act on it as the rest of the world.
type pool struct {
	mu        sync.Mutex
	keys      map[string]ed25519.PublicKey
	money     map[string]int64
	next      map[string]uint64            // of an account, after the newest block
	waiting   map[string]map[uint64]poolTx // by account and nonce
	blocks    [][]poolTx
	depth     uint64
	delegated map[string]bool
	dev       bool
	first     string                        // tells its first block; "": the usual one
	named     int                           // how often that was asked for
	refuse    func(poolTx) *txmgr.SendError // what a node has against a transaction; nil: nothing
}

// poolTx is a transaction on its wire.
type poolTx struct {
	From, To  string
	Nonce     uint64
	Value     int64
	Data      []byte
	Max, Tip  int64
	Signature []byte `json:",omitempty"`
}

func (t poolTx) digest() []byte {
	t.Signature = nil
	text, _ := json.Marshal(t)
	sum := sha256.Sum256(text)
	return sum[:]
}

func (t poolTx) hash() string { return hex.EncodeToString(t.digest()) }

const (
	poolMoney   = 1_000_000_000
	poolBaseFee = 1000
	poolGas     = 7
)

func newPool(keys ...risingKey) *pool {
	p := &pool{
		keys: map[string]ed25519.PublicKey{}, money: map[string]int64{}, next: map[string]uint64{}, waiting: map[string]map[uint64]poolTx{}, blocks: [][]poolTx{nil},
		delegated: map[string]bool{},
	}
	for _, k := range keys {
		p.add(k)
	}
	return p
}

// add makes an account.
func (p *pool) add(k risingKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[k.name], p.money[k.name] = k.key.Public().(ed25519.PublicKey), poolMoney
	p.waiting[k.name] = map[uint64]poolTx{}
}

// mine makes a block of all that can be executed.
func (p *pool) mine() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var block []poolTx
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
func (p *pool) foreign(account string, nonce uint64, price int64) poolTx {
	p.mu.Lock()
	defer p.mu.Unlock()
	tx := poolTx{From: account, To: account, Nonce: nonce, Data: []byte("foreign"), Max: price, Tip: price}
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

func (p *pool) refusing(why func(poolTx) *txmgr.SendError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = why
}

func (p *pool) head() txmgr.Head {
	n := uint64(len(p.blocks) - 1)
	return txmgr.Head{Number: n, Hash: blockHash(n), Time: int64(n) * 1_000_000}
}

// executed finds a transaction in the blocks.
func (p *pool) executed(is func(poolTx) bool) (poolTx, uint64, bool) {
	for n, block := range p.blocks {
		for _, tx := range block {
			if is(tx) {
				return tx, uint64(n), true
			}
		}
	}
	return poolTx{}, 0, false
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

func (p *pool) take(tx poolTx) error {
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

// poolNode is an endpoint of a pool: a txmgr.Chain.
type poolNode struct {
	*pool
	down  atomic.Bool
	mute  atomic.Bool  // it tells nobody's nonce
	asked atomic.Int64 // questions that it answered
	late  atomic.Int64 // how many blocks its receipts are behind its other answers, as behind a balancer
	shown atomic.Int64 // questions for receipts that it answered while they were behind
}

// ask locks the pool if the node answers.
func (c *poolNode) ask(ctx context.Context) (unlock func(), err error) {
	if c.down.Load() || ctx.Err() != nil {
		return nil, errDown
	}
	c.asked.Add(1)
	c.mu.Lock()
	return c.mu.Unlock, nil
}

func (c *poolNode) ID() string { return "pool" }

func (c *poolNode) Traits() txmgr.Traits {
	return txmgr.Traits{Mempool: true, Depth: c.depth, InFlight: 16, Dev: c.dev, Unit: txmgr.Unit{Name: "COIN", Decimals: 9}}
}

func (c *poolNode) Identity(ctx context.Context) (string, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	c.named++
	if c.first != "" {
		return c.first, nil
	}
	return "the pool's chain", nil
}

func (c *poolNode) Account(text string) (string, error) {
	if !risingName.MatchString(text) {
		return "", errors.New("not a name")
	}
	return text, nil
}

func (c *poolNode) Head(ctx context.Context) (txmgr.Head, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return txmgr.Head{}, err
	}
	defer unlock()
	return c.head(), nil
}

func (c *poolNode) BlockHash(ctx context.Context, number uint64) (string, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if number >= uint64(len(c.blocks)) {
		return "", nil
	}
	return blockHash(number), nil
}

func (c *poolNode) Nonces(ctx context.Context, account string) (txmgr.Nonces, error) {
	if c.mute.Load() {
		return txmgr.Nonces{}, errDown
	}
	unlock, err := c.ask(ctx)
	if err != nil {
		return txmgr.Nonces{}, err
	}
	defer unlock()
	return txmgr.Nonces{Latest: c.next[account], Head: c.head()}, nil
}

func (c *poolNode) HighestPending(ctx context.Context, account string) (uint64, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	return c.inLine(account), nil
}

func (c *poolNode) Pool(ctx context.Context, account string, list []txmgr.Signed) (uint64, []bool, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer unlock()
	held := make([]bool, len(list))
	for n, s := range list {
		is := func(tx poolTx) bool { return tx.hash() == s.Hash }
		_, _, held[n] = c.executed(is)
		for _, tx := range c.waiting[account] {
			held[n] = held[n] || is(tx)
		}
	}
	return c.inLine(account), held, nil
}

func (c *poolNode) Balance(ctx context.Context, account string) (*big.Int, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return big.NewInt(c.money[account]), nil
}

func (c *poolNode) Delegated(ctx context.Context, account string) (bool, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	return c.delegated[account], nil
}

func (c *poolNode) Market(ctx context.Context) (txmgr.Market, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return txmgr.Market{}, err
	}
	defer unlock()
	fees := txmgr.Fees{Max: big.NewInt(2*poolBaseFee + 100), Tip: big.NewInt(100)}
	return txmgr.Market{
		BaseFee: big.NewInt(poolBaseFee), At: 1 << 61,
		Tips: map[string]txmgr.Fees{txmgr.SpeedSlow: fees, txmgr.SpeedStandard: fees, txmgr.SpeedFast: fees},
	}, nil
}

func (c *poolNode) Simulate(ctx context.Context, call txmgr.Call) (txmgr.Simulation, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return txmgr.Simulation{}, err
	}
	defer unlock()
	if call.To == "broken" {
		return txmgr.Simulation{Reason: "it is broken"}, nil
	}
	if !call.Funded && call.Value != nil && call.Value.Cmp(big.NewInt(c.money[call.From])) > 0 {
		return txmgr.Simulation{Reason: "insufficient funds for transfer"}, nil
	}
	return txmgr.Simulation{Success: true, Gas: poolGas}, nil
}

func (c *poolNode) Prepare(ctx context.Context, d txmgr.Draft) (txmgr.Unsigned, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return txmgr.Unsigned{}, err
	}
	defer unlock()
	tx := poolTx{From: d.Signer, To: d.To, Nonce: d.Nonce, Value: d.Value.Int64(), Data: d.Data, Max: d.Fees.Max.Int64(), Tip: d.Fees.Tip.Int64()}
	return txmgr.Unsigned{Bytes: tx.digest(), Form: tx}, nil
}

func (c *poolNode) Seal(u txmgr.Unsigned, signature []byte) (txmgr.Signed, error) {
	tx := u.Form.(poolTx)
	tx.Signature = signature
	raw, err := json.Marshal(tx)
	if err != nil {
		return txmgr.Signed{}, err
	}
	read, err := c.Decode(raw)
	return read.Signed, err
}

func (c *poolNode) Decode(raw []byte) (txmgr.Decoded, error) {
	var tx poolTx
	if err := json.Unmarshal(raw, &tx); err != nil {
		return txmgr.Decoded{}, err
	}
	if key := c.keys[tx.From]; len(key) == 0 || !ed25519.Verify(key, tx.digest(), tx.Signature) {
		return txmgr.Decoded{}, errors.New("the signature is not the account's")
	}
	return txmgr.Decoded{
		Signed: txmgr.Signed{Hash: tx.hash(), Raw: raw}, Signer: tx.From, Nonce: tx.Nonce,
		Call: txmgr.Call{From: tx.From, To: tx.To, Value: big.NewInt(tx.Value), Data: tx.Data, Gas: poolGas},
		Fees: txmgr.Fees{Max: big.NewInt(tx.Max), Tip: big.NewInt(tx.Tip)},
	}, nil
}

func (c *poolNode) Send(ctx context.Context, list []txmgr.Signed) []error {
	out := make([]error, len(list))
	for n, s := range list {
		read, err := c.Decode(s.Raw)
		if err != nil {
			out[n] = &txmgr.SendError{Class: txmgr.ClassFatal, Text: err.Error()}
			continue
		}
		unlock, err := c.ask(ctx)
		if err != nil {
			out[n] = &txmgr.SendError{Class: txmgr.ClassTransport, Text: err.Error()}
			continue
		}
		out[n] = c.take(poolTx{From: read.Signer, To: read.To, Nonce: read.Nonce, Value: read.Value.Int64(), Data: read.Data, Max: read.Fees.Max.Int64(), Tip: read.Fees.Tip.Int64()})
		unlock()
	}
	return out
}

func (c *poolNode) Receipts(ctx context.Context, list []txmgr.Signed) (txmgr.Head, []txmgr.Lookup, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return txmgr.Head{}, nil, err
	}
	defer unlock()
	head := c.head()
	if late := min(uint64(c.late.Load()), head.Number); late > 0 {
		n := head.Number - late
		head = txmgr.Head{Number: n, Hash: blockHash(n), Time: int64(n) * 1_000_000}
		c.shown.Add(1)
	}
	out := make([]txmgr.Lookup, len(list))
	for n, s := range list {
		out[n] = txmgr.Lookup{Hash: s.Hash, Tag: s.Tag}
		if _, block, found := c.executed(func(tx poolTx) bool { return tx.hash() == s.Hash }); found && block <= head.Number {
			out[n].Receipt = &txmgr.Receipt{Hash: s.Hash, Block: block, BlockHash: blockHash(block), Success: true, GasUsed: poolGas, GasPrice: big.NewInt(poolBaseFee)}
		}
	}
	return head, out, nil
}

func (c *poolNode) Consumer(ctx context.Context, account string, nonce uint64) (*txmgr.Consumer, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	tx, block, found := c.executed(func(tx poolTx) bool { return tx.From == account && tx.Nonce == nonce })
	if !found {
		return nil, nil
	}
	return &txmgr.Consumer{Hash: tx.hash(), Block: block, BlockHash: blockHash(block), Head: c.head()}, nil
}

func (c *poolNode) Expired(context.Context, txmgr.Signed) (bool, error) { return false, nil }

func (c *poolNode) Renew(context.Context, txmgr.Signed, string) (txmgr.Signed, error) {
	return txmgr.Signed{}, txmgr.ErrNotPossible
}
