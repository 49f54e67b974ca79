package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha512"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
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
	"lockstep/devnet/ledger"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Shape of the archive's usual blocks, the same as in the figures of the established
// relay: 20 transactions and 20 logs, from as many senders, to five contracts.
const (
	blockSize     = 20
	blockSenders  = 20
	logContracts  = 5
	archiveNumber = 298 // chain id
)

// Every call of these contracts logs its call data under two topics, the second of them
// the caller, and returns 32 bytes.
var (
	loggerInit = hexutil.MustDecode("0x6d" + "365f5f3733602a365fa260205ff3" + "5f52600e6012f3")
	loggerCall = hexutil.MustDecode("0xa9059cbb" + strings.Repeat("00", 12) + strings.Repeat("2a", 20) + strings.Repeat("00", 30) + "03e8")
)

// archive is the process of the mirror node that the rows of reads are about: a devnet
// whose ledger is filled straight, without a consensus node, and counts its requests.
type archive struct {
	chain *devnet.Network
	calls atomic.Int64

	mu        sync.Mutex // guards all below
	keys      []*ecdsa.PrivateKey
	nonces    []uint64
	payer     hedera.ID
	sequence  int64 // of transaction ids
	contracts []common.Address
	ended     time.Time // when the last block of fill did
}

// archiveRole is the main function of the archive's process.
func archiveRole(ctx context.Context, out io.Writer) error {
	// Blocks end when they are told to, never by time.
	chain, err := devnet.New(ctx, devnet.Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", BlockTime: 24 * time.Hour, History: 1 << 18})
	if err != nil {
		return err
	}
	a := &archive{chain: chain}
	if err := a.found(); err != nil {
		chain.Close()
		return err
	}
	front, err := a.listen(ctx)
	if err != nil {
		chain.Close()
		return err
	}
	return serveChain(ctx, out, chain, front, a.handler())
}

func (a *archive) listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", "127.0.0.1:0")
}

// handler is the mirror node behind a counter, with the suite's own paths beside it.
func (a *archive) handler() http.Handler {
	mirror := mirrorHandler(a.chain)
	mux := http.NewServeMux()
	mux.Handle("/", mirror)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		a.calls.Add(1)
		mirror.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /suite/calls", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, a.calls.Load()) // the suite went away
	})
	mux.HandleFunc("POST /suite/blocks", a.postBlocks)
	return mux
}

// filled is what the archive tells of blocks it has made.
type filled struct {
	First        int64           `json:"first"` // block number
	Transactions [][]common.Hash `json:"transactions"`
	Contract     common.Address  `json:"contract"`
	Visible      int64           `json:"visible"` // Unix milliseconds at which the last one ended
}

// postBlocks makes ?count= blocks of ?size= transactions.
func (a *archive) postBlocks(w http.ResponseWriter, r *http.Request) {
	count, err1 := strconv.Atoi(r.URL.Query().Get("count"))
	size, err2 := strconv.Atoi(r.URL.Query().Get("size"))
	if err := errors.Join(err1, err2); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	made := filled{First: a.chain.Ledger().View().LatestBlock().Number + 1, Contract: a.contracts[0]}
	for range count {
		hashes, err := a.fill(size)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		made.Transactions = append(made.Transactions, hashes)
	}
	made.Visible = a.ended.UnixMilli()
	_ = json.NewEncoder(w).Encode(made) // the suite went away
}

// found creates the contracts.
func (a *archive) found() error {
	for _, account := range ledger.DevAccounts() {
		if account.EVMAddress() == account.ID.LongZero() || len(a.keys) == blockSenders {
			continue
		}
		key, err := crypto.HexToECDSA(account.PrivateKey)
		if err != nil {
			return err
		}
		if a.payer == (hedera.ID{}) {
			a.payer = account.ID
		}
		a.keys, a.nonces = append(a.keys, key), append(a.nonces, 0)
	}
	if len(a.keys) != blockSenders {
		return fmt.Errorf("the devnet has %d accounts with an EVM address", len(a.keys))
	}
	for range logContracts {
		a.contracts = append(a.contracts, crypto.CreateAddress(crypto.PubkeyToAddress(a.keys[0].PublicKey), a.nonces[0]))
		if _, err := a.handle(0, nil, loggerInit); err != nil {
			return err
		}
	}
	a.chain.Ledger().CloseBlock()
	return nil
}

// fill makes a block.
func (a *archive) fill(size int) ([]common.Hash, error) {
	var hashes []common.Hash
	for i := range size {
		hash, err := a.handle(i%len(a.keys), &a.contracts[i%len(a.contracts)], loggerCall)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, hash)
	}
	a.ended = time.Now() // before anybody can see it
	a.chain.Ledger().CloseBlock()
	return hashes, nil
}

// handle brings one transaction to consensus.
func (a *archive) handle(sender int, to *common.Address, data []byte) (common.Hash, error) {
	chainID, price := big.NewInt(archiveNumber), big.NewInt(1_000_000_000_000)
	signed, err := types.SignNewTx(a.keys[sender], types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
		ChainID: chainID, Nonce: a.nonces[sender], GasFeeCap: price, GasTipCap: new(big.Int), Gas: 100_000, To: to, Data: data,
	})
	if err != nil {
		return common.Hash{}, err
	}
	raw, err := signed.MarshalBinary()
	if err != nil {
		return common.Hash{}, err
	}
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		return common.Hash{}, err
	}
	a.nonces[sender]++
	a.sequence++
	body := &hapi.TransactionBody{TransactionFee: uint64(hedera.Hbar), Data: &hapi.TransactionBody_EthereumTransaction{
		EthereumTransaction: &hapi.EthereumTransactionBody{EthereumData: raw},
	}}
	record := a.chain.Ledger().Handle(&ledger.Submission{
		Body: body, Payer: a.payer, Node: hedera.Entity(3), Ethereum: tx, Size: len(raw),
		ID:         hedera.TransactionID{Payer: a.payer, ValidStart: hedera.FromNanos(a.sequence)},
		Hash:       sha512.Sum384(binary.BigEndian.AppendUint64(nil, uint64(a.sequence))),
		Signatures: ledger.NewSignatures(nil, nil),
	})
	if record.Status != hapi.ResponseCodeEnum_SUCCESS {
		return common.Hash{}, fmt.Errorf("transaction %d of the archive: %v", a.sequence, record.Status)
	}
	return tx.Hash(), nil
}

// library is the archive's process as the suite sees it, with what is in it.
type library struct {
	*network
	blocks filled
}

// library starts an archive with so many blocks of the usual size.
func (l *lab) library(ctx context.Context, blocks int) (*library, error) {
	p, err := l.start("archive", nil, l.self, "archive")
	if err != nil {
		return nil, err
	}
	a := &library{network: &network{process: p}}
	err = p.ready(ctx, func(line []byte) bool {
		return json.Unmarshal(line, &a.networkReady) == nil && a.Network
	})
	if err == nil {
		a.blocks, err = a.add(ctx, blocks, blockSize)
	}
	if err != nil {
		p.kill()
		return nil, err
	}
	return a, nil
}

// add makes blocks.
func (a *library) add(ctx context.Context, count, size int) (made filled, err error) {
	err = request(ctx, http.MethodPost, fmt.Sprintf("%s/suite/blocks?count=%d&size=%d", a.URL, count, size), "", &made)
	return made, err
}

// calls is how many requests of the API there were.
func (a *library) calls(ctx context.Context) (float64, error) {
	var n float64
	err := request(ctx, http.MethodGet, a.URL+"/suite/calls", "", &n)
	return n, err
}
