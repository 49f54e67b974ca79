package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha512"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
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
	"lockstep/devnet/ledger"
	"lockstep/devnet/mirrorrest"
	"lockstep/devnet/node"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// network is the network's process as the suite sees it.
type network struct {
	*process
	ready
	seen   int    // arrivals before the present run
	blocks filled // of an archive
}

// Which account does what. The operator is the first one.
const (
	funderAccount = 1
	firstSender   = 2
)

// network starts a network.
func (l *lab) network(ctx context.Context, args ...string) (n *network, err error) {
	n = new(network)
	n.process, n.ready, err = l.role(ctx, nil, append([]string{"network"}, args...)...)
	return n, err
}

// archive starts a network for reads: its blocks end when they are told to, and it has so many of the usual size.
func (l *lab) archive(ctx context.Context, blocks int) (*network, error) {
	n, err := l.network(ctx, "-archive")
	if err != nil {
		return nil, err
	}
	if n.blocks, err = n.add(ctx, blocks); err != nil {
		n.Kill()
	}
	return n, err
}

// conduct is how the network behaves.
type conduct struct {
	Submit delay `json:"submit"` // of a submission at the node
	Mirror delay `json:"mirror"` // of an answer of the mirror node
	Query  delay `json:"query"`  // of a receipt query at the node
	Hold   bool  `json:"hold"`   // keep submissions at the node until it ends
}

// usual is the conduct under load unless a row says otherwise.
func usual() conduct {
	ms := time.Millisecond
	return conduct{Submit: delay{5 * ms, 10 * ms}, Mirror: delay{5 * ms, 10 * ms}, Query: delay{2 * ms, 2 * ms}}
}

// delay is a time drawn evenly between two, in nanoseconds.
type delay [2]time.Duration

// pass waits.
func (d delay) pass() {
	if d[1] > d[0] {
		d[0] += rand.N(d[1] - d[0])
	}
	if d[0] > 0 {
		<-time.After(d[0])
	}
}

// arrival is a submission as the node saw it.
type arrival struct {
	Sender common.Address `json:"sender"`
	Nonce  uint64         `json:"nonce"`
	At     int64          `json:"at"`   // Unix time in nanoseconds
	Done   int64          `json:"done"` // when its delay was over; 0 = not yet
}

// stage is the network's process: the devnet, its delays and its notes.
type stage struct {
	chain *devnet.Network
	rules faults.Rules // what is spoiled besides
	calls atomic.Int64 // of the mirror node
	fill  filler

	mu       sync.Mutex // guards all below
	conduct  conduct
	open     chan struct{} // closed while nothing is held
	arrivals []arrival
}

// networkRole is the main function of the network's process.
func networkRole(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("network", flag.ContinueOnError)
	latency := flags.Duration("consensus-latency", 0, "time from acceptance to consensus")
	archive := flags.Bool("archive", false, "blocks end when they are told to, never by time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	debug.SetGCPercent(frugal)
	s := &stage{open: make(chan struct{})}
	close(s.open)
	cfg := devnet.Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", ConsensusLatency: *latency, History: 1 << 18, Fault: s.fault}
	if *archive {
		cfg.BlockTime = 24 * time.Hour
	}
	if s.chain, err = devnet.New(ctx, cfg); err != nil {
		return err
	}
	if *archive {
		if err := s.fill.begin(s.chain); err != nil {
			s.chain.Close()
			return err
		}
	}
	// The mirror node of the suite is the devnet's behind a delay; the devnet's own port stays unused.
	mirror := mirrorrest.New(mirrorrest.Config{View: s.chain.MirrorView, Fault: s.rules.Mirror, Log: slog.New(slog.DiscardHandler)})
	mux := http.NewServeMux()
	mux.Handle("/", mirror)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		s.now().Mirror.pass()
		mirror.ServeHTTP(w, r)
	})
	mux.Handle("/faults", &s.rules)
	mux.HandleFunc("PUT /suite/conduct", s.setConduct)
	mux.HandleFunc("GET /suite/arrivals", s.listArrivals)
	mux.HandleFunc("POST /suite/blocks", s.postBlocks)
	mux.HandleFunc("GET /suite/calls", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, s.calls.Load()) // the suite went away
	})
	return serve(ctx, out, ready{Nodes: s.chain.Nodes(), Accounts: s.chain.Accounts()}, mux, s.chain.Run)
}

func (s *stage) now() conduct {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conduct
}

// fault delays a call itself, so that it knows when the delay was over.
func (s *stage) fault(c node.Call) node.Fault {
	s.mu.Lock()
	now, open := s.conduct, s.open
	s.mu.Unlock()
	switch {
	case c.Query != nil:
		now.Query.pass()
	case c.Submission != nil && c.Submission.Ethereum != nil:
		tx := c.Submission.Ethereum
		s.mu.Lock()
		i := len(s.arrivals)
		s.arrivals = append(s.arrivals, arrival{Sender: tx.From(), Nonce: tx.Nonce(), At: time.Now().UnixNano()})
		s.mu.Unlock()
		now.Submit.pass()
		<-open
		s.mu.Lock()
		s.arrivals[i].Done = time.Now().UnixNano()
		s.mu.Unlock()
		if now.Hold {
			// What is left of the delay lets the node see that the caller is gone.
			return node.Fault{Delay: 2 * time.Millisecond}
		}
	}
	return s.rules.Node(c)
}

func (s *stage) setConduct(w http.ResponseWriter, r *http.Request) {
	var c conduct
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<12)).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch held := s.conduct.Hold; {
	case c.Hold && !held:
		s.open = make(chan struct{})
	case !c.Hold && held:
		close(s.open)
	}
	s.conduct = c
}

func (s *stage) listArrivals(w http.ResponseWriter, r *http.Request) {
	since, err := strconv.Atoi(r.URL.Query().Get("since"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || since < 0 || since > len(s.arrivals) {
		http.Error(w, "since: want a number of arrivals", http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(append([]arrival{}, s.arrivals[since:]...)) // the suite went away
}

// filled is what an archive tells of blocks it has made.
type filled struct {
	First        int64           `json:"first"` // block number
	Transactions [][]common.Hash `json:"transactions"`
	Contract     common.Address  `json:"contract"`
	Visible      int64           `json:"visible"` // Unix milliseconds at which the last one ended
}

// postBlocks makes ?count= blocks.
func (s *stage) postBlocks(w http.ResponseWriter, r *http.Request) {
	count, err := strconv.Atoi(r.URL.Query().Get("count"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.fill.mu.Lock()
	defer s.fill.mu.Unlock()
	chain := s.chain.Ledger()
	made := filled{First: chain.View().LatestBlock().Number + 1, Contract: s.fill.contracts[0]}
	for range count {
		hashes, err := s.fill.block()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		made.Transactions = append(made.Transactions, hashes)
		made.Visible = time.Now().UnixMilli() // before anybody can see it
		chain.CloseBlock()
	}
	_ = json.NewEncoder(w).Encode(made) // the suite went away
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

// filler fills an archive's ledger straight, without a consensus node.
type filler struct {
	mu        sync.Mutex // guards all below
	ledger    *ledger.Ledger
	keys      []*ecdsa.PrivateKey
	nonces    [blockSenders]uint64
	payer     hedera.ID
	sequence  int64 // of transaction ids
	contracts []common.Address
}

// begin creates the contracts.
func (f *filler) begin(chain *devnet.Network) error {
	f.ledger = chain.Ledger()
	for _, account := range ledger.DevAccounts() {
		if account.EVMAddress() == account.ID.LongZero() || len(f.keys) == blockSenders {
			continue
		}
		key, err := crypto.HexToECDSA(account.PrivateKey)
		if err != nil {
			return err
		}
		f.payer, f.keys = account.ID, append(f.keys, key)
	}
	if len(f.keys) != blockSenders {
		return fmt.Errorf("the devnet has %d accounts with an EVM address", len(f.keys))
	}
	for range logContracts {
		f.contracts = append(f.contracts, crypto.CreateAddress(crypto.PubkeyToAddress(f.keys[0].PublicKey), f.nonces[0]))
		if _, err := f.handle(0, nil, loggerInit); err != nil {
			return err
		}
	}
	f.ledger.CloseBlock()
	return nil
}

// block makes what is to be in a block.
func (f *filler) block() (hashes []common.Hash, err error) {
	for i := range blockSize {
		hash, err := f.handle(i%len(f.keys), &f.contracts[i%len(f.contracts)], loggerCall)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, hash)
	}
	return hashes, nil
}

// handle brings one transaction to consensus.
func (f *filler) handle(sender int, to *common.Address, data []byte) (common.Hash, error) {
	_, raw, err := sign(f.keys[sender], &types.DynamicFeeTx{
		Nonce: f.nonces[sender], GasFeeCap: big.NewInt(1_000_000_000_000), Gas: 100_000, To: to, Data: data,
	})
	if err != nil {
		return common.Hash{}, err
	}
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		return common.Hash{}, err
	}
	f.nonces[sender]++
	f.sequence++
	body := &hapi.TransactionBody{TransactionFee: uint64(hedera.Hbar), Data: &hapi.TransactionBody_EthereumTransaction{
		EthereumTransaction: &hapi.EthereumTransactionBody{EthereumData: raw},
	}}
	record := f.ledger.Handle(&ledger.Submission{
		Body: body, Payer: f.payer, Node: hedera.Entity(3), Ethereum: tx, Size: len(raw),
		ID:         hedera.TransactionID{Payer: f.payer, ValidStart: hedera.FromNanos(f.sequence)},
		Hash:       sha512.Sum384(binary.BigEndian.AppendUint64(nil, uint64(f.sequence))),
		Signatures: ledger.NewSignatures(nil, nil),
	})
	if record.Status != hapi.ResponseCodeEnum_SUCCESS {
		return common.Hash{}, fmt.Errorf("transaction %d of the archive: %v", f.sequence, record.Status)
	}
	return tx.Hash(), nil
}

// sign signs a transaction of the chain.
func sign(key *ecdsa.PrivateKey, tx *types.DynamicFeeTx) (common.Hash, []byte, error) {
	tx.ChainID = big.NewInt(chainNumber)
	if tx.GasTipCap == nil {
		tx.GasTipCap = new(big.Int)
	}
	signed, err := types.SignNewTx(key, types.LatestSignerForChainID(tx.ChainID), tx)
	if err != nil {
		return common.Hash{}, nil, err
	}
	raw, err := signed.MarshalBinary()
	return signed.Hash(), raw, err
}
