package near

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/holiman/uint256"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/httpserve"
	"lockstep/internal/near"
)

// Config is what a chain can be made with.
type Config struct {
	Validity uint64    // blocks for which a transaction's block hash is good; 86,400 if 0
	Accounts []Account // with one full-access key each
}

// Account is one that a chain begins with.
type Account struct {
	ID       string
	Key      near.PublicKey
	NEAR     uint64 // its money
	Contract string // of contracts.go; "" for none
}

const (
	blockTime = 200 * time.Millisecond
	finality  = 2                // blocks on top that make a block final
	perBlock  = 500              // transactions in a block
	maxPool   = 10_000           // transactions that wait; beyond them the shard is congested
	patience  = 10 * time.Second // for which a reply waits for an execution
)

// Bounds on what is remembered.
const (
	maxRecords = 100_000 // transactions
	maxHistory = 10_000  // blocks whose state can be asked for
)

// block is one block with its only chunk.
type block struct {
	height uint64
	hash   near.Hash
	time   time.Time
	txs    []*record
}

// Chain is a running chain.
type Chain struct {
	config Config
	faults Faults

	mu       sync.Mutex
	blocks   []*block // by height, from first
	first    uint64
	heights  map[near.Hash]uint64
	accounts map[string][]version
	pool     []near.SignedTransaction
	pooled   map[near.Hash]bool
	records  map[near.Hash]*record
	order    []near.Hash // of records, the oldest first
	receipts []*receipt  // to be executed in the next block
	changed  chan struct{}
	serial   uint64
	refused  map[string]int
}

// version is an account after a block; nil if it was deleted there.
type version struct {
	height  uint64
	account *account
}

// New makes a chain with its first block.
func New(config Config) *Chain {
	c := &Chain{
		config: config, heights: map[near.Hash]uint64{}, accounts: map[string][]version{},
		pooled: map[near.Hash]bool{}, records: map[near.Hash]*record{}, changed: make(chan struct{}), refused: map[string]int{},
	}
	c.first = 1
	c.config.Validity = cmp.Or(config.Validity, 86_400)
	for _, a := range config.Accounts {
		one := newAccount()
		one.amount.Mul(uint256.NewInt(a.NEAR), yocto)
		one.contract = a.Contract
		one.keys[a.Key] = near.AccessKey{Permission: near.FullAccess{}}
		c.accounts[a.ID] = []version{{c.first, one}}
	}
	c.add(&block{height: c.first, time: time.Now()})
	return c
}

// yocto is one NEAR.
var yocto = new(uint256.Int).Exp(uint256.NewInt(10), uint256.NewInt(24))

// Faults are those of the chain's node.
func (c *Chain) Faults() *Faults { return &c.faults }

// Run makes blocks until the context ends.
func (c *Chain) Run(ctx context.Context) error {
	tick := time.NewTicker(blockTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.Mine()
		}
	}
}

// Mine makes the next block.
func (c *Chain) Mine() {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &block{height: c.head().height + 1, time: time.Now()}
	b.hash = c.hash(b)
	work := c.newWork(b)
	later := work.include()
	for _, r := range c.receipts {
		later = append(later, work.execute(r)...)
	}
	c.receipts = later
	for id, a := range work.changed {
		c.store(id, b.height, a)
	}
	c.add(b)
	close(c.changed)
	c.changed = make(chan struct{})
}

// store remembers an account after a block, and forgets what nobody can ask for.
func (c *Chain) store(id string, height uint64, a *account) {
	list := append(c.accounts[id], version{height, a})
	for len(list) > 1 && list[1].height+maxHistory < height {
		list = list[1:]
	}
	c.accounts[id] = list
}

func (c *Chain) hash(b *block) near.Hash {
	var data []byte
	if len(c.blocks) > 0 {
		previous := c.head().hash
		data = append(data, previous[:]...)
	}
	data = binary.LittleEndian.AppendUint64(data, b.height)
	return sha256.Sum256(binary.LittleEndian.AppendUint64(data, uint64(b.time.UnixNano())))
}

func (c *Chain) add(b *block) {
	if b.hash == (near.Hash{}) {
		b.hash = c.hash(b)
	}
	c.blocks = append(c.blocks, b)
	c.heights[b.hash] = b.height
	if uint64(len(c.blocks)) > 2*c.config.Validity+maxHistory {
		delete(c.heights, c.blocks[0].hash)
		c.blocks = c.blocks[1:]
		c.first++
	}
}

func (c *Chain) head() *block { return c.blocks[len(c.blocks)-1] }

// final is the newest final block.
func (c *Chain) final() *block {
	return c.blocks[max(0, len(c.blocks)-1-finality)]
}

func (c *Chain) at(height uint64) *block {
	if height < c.first || height > c.head().height {
		return nil
	}
	return c.blocks[height-c.first]
}

// account returns an account after a block, or nil.
func (c *Chain) account(id string, height uint64) *account {
	list := c.accounts[id]
	for _, l := range slices.Backward(list) {
		if l.height <= height {
			return l.account
		}
	}
	return nil
}

// send puts a transaction into the pool, or returns what a node says against it.
func (c *Chain) send(tx near.SignedTransaction) object {
	c.mu.Lock()
	defer c.mu.Unlock()
	hash, err := tx.Hash()
	if err != nil || !tx.Verify() {
		return object{"InvalidTxError": "InvalidSignature"}
	}
	if c.faults.take("send_tx", Congested) || len(c.pool) >= maxPool {
		return object{"InvalidTxError": object{"ShardCongested": object{"shard_id": 0, "congestion_level": 1.0}}}
	}
	head := c.head()
	if refusal := c.newWork(&block{height: head.height + 1, hash: head.hash}).check(tx); refusal != nil {
		if c.records[hash] != nil {
			return nil // sent again, which is no error
		}
		c.refuse(refusal)
		return object{"InvalidTxError": refusal}
	}
	if !c.pooled[hash] {
		c.pool = append(c.pool, tx)
		c.pooled[hash] = true
	}
	return nil
}

// refuse counts a refusal by its name.
func (c *Chain) refuse(refusal any) {
	if named, ok := refusal.(object); ok {
		for name := range named {
			c.refused[name]++
		}
		return
	}
	c.refused[fmt.Sprint(refusal)]++
}

// Refusals counts the transactions that were refused, or dropped when their turn came, by
// nearcore's names of the reasons.
func (c *Chain) Refusals() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.refused)
}

// include takes transactions from the pool: those of a key in the order of their nonces. It
// returns receipts for the next block.
func (w *work) include() []*receipt {
	c := w.chain
	type lane struct {
		signer string
		key    near.PublicKey
	}
	lanes := map[lane][]int{}
	for i, tx := range c.pool {
		l := lane{tx.Signer, tx.PublicKey}
		lanes[l] = append(lanes[l], i)
	}
	order := make([]int, len(c.pool))
	for _, places := range lanes {
		sorted := slices.SortedStableFunc(slices.Values(places), func(a, b int) int { return cmp.Compare(c.pool[a].Nonce, c.pool[b].Nonce) })
		for i, place := range places {
			order[place] = sorted[i]
		}
	}
	var later []*receipt
	var rest []near.SignedTransaction
	for _, i := range order {
		tx := c.pool[i]
		hash, _ := tx.Hash() // it had one when it came
		if len(w.block.txs) >= perBlock {
			rest = append(rest, tx)
			continue
		}
		delete(c.pooled, hash)
		if refusal := w.check(tx); refusal == nil {
			later = append(later, w.accept(hash, tx)...)
		} else {
			c.refuse(refusal)
		}
	}
	c.pool = rest
	return later
}

// remember keeps a transaction's record, and forgets the oldest.
func (c *Chain) remember(r *record) {
	c.records[r.hash] = r
	c.order = append(c.order, r.hash)
	if len(c.order) > maxRecords {
		delete(c.records, c.order[0])
		c.order = c.order[1:]
	}
}

// id makes the id of a receipt.
func (c *Chain) id() near.Hash {
	c.serial++
	return sha256.Sum256(fmt.Appendf(nil, "receipt %d of %v", c.serial, c.blocks[0].hash))
}

// work is what one block changes.
type work struct {
	chain   *Chain
	block   *block
	changed map[string]*account
}

func (c *Chain) newWork(b *block) *work {
	return &work{chain: c, block: b, changed: map[string]*account{}}
}

// view is an account as it is now; it must not be changed.
func (w *work) view(id string) *account {
	if a, ok := w.changed[id]; ok {
		return a
	}
	return w.chain.account(id, w.block.height)
}

// edit is an account that may be changed, or nil.
func (w *work) edit(id string) *account {
	a := w.view(id)
	if a == nil {
		return nil
	}
	a = a.clone()
	w.changed[id] = a
	return a
}

// account is what the chain knows of one. It is never changed once a block has it.
type account struct {
	amount   uint256.Int
	keys     map[near.PublicKey]near.AccessKey
	code     []byte
	contract string
	state    map[string]string
}

func newAccount() *account {
	return &account{keys: map[near.PublicKey]near.AccessKey{}, state: map[string]string{}}
}

func (a *account) clone() *account {
	b := *a
	b.keys, b.state = maps.Clone(a.keys), maps.Clone(a.state)
	return &b
}

// Executed lists the transactions in blocks, the oldest first.
func (c *Chain) Executed() []near.SignedTransaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]near.SignedTransaction, len(c.order))
	for i, hash := range c.order {
		list[i] = c.records[hash].tx
	}
	return list
}

// Balance is an account's money after the newest block, 0 if there is none.
func (c *Chain) Balance(id string) uint256.Int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.account(id, c.head().height); a != nil {
		return a.amount
	}
	return uint256.Int{}
}

// Developer is an account whose secret key is public.
type Developer struct {
	ID        string `json:"id"`
	SecretKey string `json:"secretKey"`
	PublicKey string `json:"publicKey"`
	Contract  string `json:"contract,omitempty"`
}

// developerNEAR is what each of them has.
const developerNEAR = 1_000_000

// Developers are accounts for development, with the chain's own for each. Their keys are
// made from their names: never use them elsewhere.
func Developers() ([]Developer, []Account, error) {
	list := []Developer{
		{ID: "test", Contract: Registrar},
		{ID: "relayer.test"},
		{ID: "alice.test"},
		{ID: "bob.test"},
		{ID: "counter.test", Contract: Counter},
		{ID: "failing.test", Contract: Failing},
	}
	accounts := make([]Account, len(list))
	for i := range list {
		seed := sha256.Sum256([]byte("a public key for development: " + list[i].ID))
		secret, err := near.ParseSecretKey("ed25519:" + near.EncodeBase58(seed[:]))
		if err != nil {
			return nil, nil, err
		}
		public := secret.Public()
		list[i].SecretKey = "ed25519:" + near.EncodeBase58(append(seed[:], public.Bytes()...))
		list[i].PublicKey = public.String()
		accounts[i] = Account{ID: list[i].ID, Key: public, NEAR: developerNEAR, Contract: list[i].Contract}
	}
	return list, accounts, nil
}

// Node is a chain of its own behind the JSON-RPC of a NEAR node.
type Node struct {
	chain    *Chain
	listener net.Listener
	accounts []Developer
}

// Listen makes a chain with the accounts of [Developers] and opens its port.
func Listen(ctx context.Context, address string) (*Node, error) {
	developers, accounts, err := Developers()
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--near-address: %w", err)
	}
	return &Node{chain: New(Config{Accounts: accounts}), listener: listener, accounts: developers}, nil
}

// Run makes blocks and answers until the context ends.
func (n *Node) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	server := &http.Server{
		Handler: n.chain, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	group.Go(func() error { return n.chain.Run(ctx) })
	group.Go(func() error { return httpserve.Until(ctx, server, n.listener, 0) })
	return group.Wait()
}

// Ready is what is printed of a node.
type Ready struct {
	RPC      string      `json:"rpc"`
	Accounts []Developer `json:"accounts"`
}

// Ready is where the node is, and who has money there.
func (n *Node) Ready() *Ready {
	return &Ready{RPC: "http://" + n.listener.Addr().String(), Accounts: n.accounts}
}
