package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/devnet"
	"lockstep/devnet/faults"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/mirrorrest"
	"lockstep/devnet/node"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// network is what relays stand in front of: a devnet in the suite's own process, with delays and notes.
type network struct {
	URL      string // of the mirror node
	Accounts []devnet.Account

	chain *devnet.Network
	rules faults.Rules // what is spoiled besides
	calls atomic.Int64 // of the mirror node's API

	gate sync.RWMutex // locked while submissions are held at the node

	mu       sync.Mutex // guards all below
	conduct  conduct
	arrivals []*arrival // of the present run
}

// Which account does what. The operator is the first one.
const (
	funderAccount = 1
	firstSender   = 2
)

// network starts a network with so much time from acceptance to consensus, and with blocks of so much time; 0: one for each transaction.
func (s *scenario) network(latency, blockTime time.Duration) *network {
	n := new(network)
	chain, err := devnet.New(s.ctx, devnet.Config{
		Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", ConsensusLatency: latency, BlockTime: blockTime, History: 1 << 18,
		Fault: n.fault, MirrorFault: n.mirrorFault,
	})
	s.must(err)
	n.chain, n.URL, n.Accounts = chain, chain.Mirror(), chain.Accounts()
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.chain.Run(ctx) // where it fails, nothing is executed, and the row says so
	}()
	s.atEnd(func() { cancel(); <-ended })
	return n
}

// conduct is how the network behaves.
type conduct struct {
	Submit delay // of a submission at the node
	Mirror delay // of an answer of the mirror node
	Query  delay // of a receipt query at the node
	Hold   bool  // keep submissions at the node until it ends
}

// usual is the conduct under load unless a row says otherwise.
func usual() conduct {
	ms := time.Millisecond
	return conduct{Submit: delay{5 * ms, 10 * ms}, Mirror: delay{5 * ms, 10 * ms}, Query: delay{2 * ms, 2 * ms}}
}

// delay is a time drawn evenly between two.
type delay [2]time.Duration

func (d delay) draw() time.Duration {
	if d[1] > d[0] {
		return d[0] + rand.N(d[1]-d[0])
	}
	return d[0]
}

func (d delay) pass() { <-time.After(d.draw()) }

// arrival is a submission as the node saw it.
type arrival struct {
	Sender common.Address
	Nonce  uint64
	At     time.Time
	Done   time.Time // when its delay was over; zero = not yet
}

// fault delays a call itself, so that it knows when the delay was over.
func (n *network) fault(c node.Call) node.Fault {
	n.mu.Lock()
	now := n.conduct
	n.mu.Unlock()
	switch {
	case c.Query != nil:
		now.Query.pass()
	case c.Submission != nil && c.Submission.Ethereum != nil:
		tx := c.Submission.Ethereum
		a := &arrival{Sender: tx.From(), Nonce: tx.Nonce(), At: time.Now()}
		n.mu.Lock()
		n.arrivals = append(n.arrivals, a)
		n.mu.Unlock()
		now.Submit.pass()
		n.gate.RLock()
		n.gate.RUnlock() //nolint:staticcheck // nothing is done behind the gate
		n.mu.Lock()
		a.Done = time.Now()
		n.mu.Unlock()
		if now.Hold {
			// What is left of the delay lets the node see that the caller is gone.
			return node.Fault{Delay: 2 * time.Millisecond}
		}
	}
	return n.rules.Node(c)
}

func (n *network) mirrorFault(r *http.Request) mirrorrest.Fault {
	fault := n.rules.Mirror(r)
	if strings.HasPrefix(r.URL.Path, "/api/") {
		n.calls.Add(1)
		n.mu.Lock()
		fault.Delay += n.conduct.Mirror.draw()
		n.mu.Unlock()
	}
	return fault
}

// behave changes the conduct.
func (n *network) behave(c conduct) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch held := n.conduct.Hold; {
	case c.Hold && !held:
		n.gate.Lock()
	case !c.Hold && held:
		n.gate.Unlock()
	}
	n.conduct = c
}

// mark starts a run: what has arrived by now does not belong to it.
func (n *network) mark() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.arrivals = nil
}

// arrived are the submissions of the present run so far.
func (n *network) arrived() (list []arrival) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.arrivals {
		list = append(list, *a)
	}
	return list
}

// archive is a network for reads: its blocks end when they are told to.
type archive struct {
	*network
	first     int64 // number of its first block
	next      int64 // of the next one
	keys      []*ecdsa.PrivateKey
	nonces    [blockSenders]uint64
	payer     hedera.ID
	sequence  int64 // of transaction ids
	contracts []common.Address
}

// Shape of an archive's usual blocks, the same as in the figures of the TypeScript relay: 20 transactions and 20 logs,
// from as many senders, to five contracts.
const (
	blockSize    = 20
	blockSenders = 20
	logContracts = 5
	chainNumber  = 298 // chain id
)

// Every call of these contracts logs its call data under two topics, the second of them
// the caller, and returns 32 bytes.
var (
	loggerInit = hexutil.MustDecode("0x6d" + "365f5f3733602a365fa260205ff3" + "5f52600e6012f3")
	loggerCall = hexutil.MustDecode("0xa9059cbb" + strings.Repeat("00", 12) + strings.Repeat("2a", 20) + strings.Repeat("00", 30) + "03e8")
)

// archive starts an archive with so many blocks of the usual size.
func (s *scenario) archive(blocks int) *archive {
	a := &archive{network: s.network(0, 24*time.Hour)}
	for _, account := range devaccounts.All() {
		if account.EVMAddress() == account.ID.LongZero() || len(a.keys) == blockSenders {
			continue
		}
		key, err := crypto.HexToECDSA(account.PrivateKey)
		s.must(err)
		a.payer, a.keys = account.ID, append(a.keys, key)
	}
	for range logContracts {
		a.contracts = append(a.contracts, crypto.CreateAddress(crypto.PubkeyToAddress(a.keys[0].PublicKey), a.nonces[0]))
		s.must(a.handle(0, nil, loggerInit))
	}
	a.chain.Ledger().CloseBlock()
	a.first = a.chain.Ledger().View().LatestBlock().Number + 1
	a.next = a.first
	for range blocks {
		s.addBlock(a)
	}
	return a
}

// addBlock makes a block, and returns when anybody could see it.
func (s *scenario) addBlock(a *archive) (visible time.Time) {
	for i := range blockSize {
		s.must(a.handle(i%len(a.keys), &a.contracts[i%len(a.contracts)], loggerCall))
	}
	a.next++
	visible = time.Now()
	a.chain.Ledger().CloseBlock()
	return visible
}

// handle brings one transaction to consensus.
func (a *archive) handle(sender int, to *common.Address, data []byte) error {
	_, raw, err := sign(a.keys[sender], &types.DynamicFeeTx{
		Nonce: a.nonces[sender], GasFeeCap: big.NewInt(1_000_000_000_000), Gas: 100_000, To: to, Data: data,
	})
	if err != nil {
		return err
	}
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		return err
	}
	a.nonces[sender]++
	a.sequence++
	body := &hapi.TransactionBody{TransactionFee: uint64(hedera.Hbar), Data: &hapi.TransactionBody_EthereumTransaction{
		EthereumTransaction: &hapi.EthereumTransactionBody{EthereumData: raw},
	}}
	record := a.chain.Ledger().Handle(&core.Submission{
		Body: body, Payer: a.payer, Node: hedera.Entity(3), Ethereum: tx, Size: len(raw),
		ID:         hedera.TransactionID{Payer: a.payer, ValidStart: hedera.FromNanos(a.sequence)},
		Hash:       sha512.Sum384(binary.BigEndian.AppendUint64(nil, uint64(a.sequence))),
		Signatures: hapikey.NewSignatures(nil, nil),
	})
	if record.Status != hapi.ResponseCodeEnum_SUCCESS {
		return fmt.Errorf("transaction %d of the archive: %v", a.sequence, record.Status)
	}
	return nil
}

// sign signs a transaction of the chain.
func sign(key *ecdsa.PrivateKey, tx *types.DynamicFeeTx) (common.Hash, []byte, error) {
	tx.ChainID = big.NewInt(chainNumber)
	tx.GasTipCap = cmp.Or(tx.GasTipCap, new(big.Int))
	signed, err := types.SignNewTx(key, types.LatestSignerForChainID(tx.ChainID), tx)
	if err != nil {
		return common.Hash{}, nil, err
	}
	raw, err := signed.MarshalBinary()
	return signed.Hash(), raw, err
}
