package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	lru "github.com/hashicorp/golang-lru/v2"

	"lockstep/internal/envx"
	"lockstep/internal/ethrpc"
	"lockstep/internal/secret"
	"lockstep/mirror"
)

// mirrorNode reads from the REST interface of a Hedera mirror node. A block is final there as soon as it is listed.
type mirrorNode struct {
	client *mirror.Client
	calls  func(n int)
	chain  uint64
	ours   atomic.Bool // it serves that chain

	senders *lru.Cache[common.Address, common.Address] // their addresses, by their numbers
}

const (
	// longestSearch is the longest time over which a mirror node looks for topics.
	longestSearch = 7 * 24 * time.Hour
	// topicsPerQuery is how many topics a query names. With more of them, they are compared here.
	topicsPerQuery = 50
	// mirrorPage is how many items a page has; pages and blockPages are how many are read of a range and of one block.
	mirrorPage, pages, blockPages = 100, 200, 500
	// immatureAttempts is how often a record is read until the mirror node knows its block.
	immatureAttempts = 10
	// mirrorSockets is the maximum number of connections: units of a chain are read one after the other.
	mirrorSockets = 16
)

func newMirrorNode(url string, cfg Config, calls func(int)) (*mirrorNode, error) {
	var c mirror.Config
	c.URL = secret.URL(url)
	c.Timeout = envx.Millis(cfg.Timeout)
	c.RetryDelay, c.CatchUp, c.HeadHold = envx.Millis(2*time.Second), envx.Millis(4*time.Second), envx.Millis(30*time.Second)
	c.HealthInterval, c.BreakerPause = envx.Millis(time.Second), envx.Millis(time.Second) // unused: the pool has endpoints rest
	c.KeepAlive, c.KeepAliveInterval, c.SocketTimeout = true, envx.Millis(15*time.Second), envx.Millis(time.Minute)
	c.MaxSockets, c.MaxTotalSockets = mirrorSockets, mirrorSockets
	c.MaxBody, c.MaxBodies = cfg.MaxResponse, cfg.MaxResponse
	c.ImmatureAttempts, c.PageSize, c.MaxLogPages, c.MaxBlockLogPages = immatureAttempts, mirrorPage, pages, blockPages
	c.MaxPages, c.MaxResultPages, c.MaxAccountPages, c.MaxBlockPages, c.SliceConcurrency, c.SliceSize = 1, blockPages, 1, 1, 1, mirrorPage
	client, err := mirror.New(c, mirror.Options{})
	if err != nil {
		return nil, err
	}
	senders, err := lru.New[common.Address, common.Address](maxSenders)
	if err != nil {
		return nil, err
	}
	return &mirrorNode{client: client, calls: calls, chain: cfg.ChainID, senders: senders}, nil
}

func (m *mirrorNode) check(ctx context.Context) error {
	if m.ours.Load() {
		return nil
	}
	id, said, err := m.chainID(ctx)
	if err != nil || !said { // what has said nothing yet has no logs, either
		return err
	}
	if id != m.chain {
		return &ethrpc.Error{Class: ethrpc.WrongChain, Text: fmt.Sprintf("it serves chain %d, not chain %d", id, m.chain)}
	}
	m.ours.Store(true)
	return nil
}

// chainID reads the chain of a recent contract result: a mirror node says nowhere else which network it is of.
func (m *mirrorNode) chainID(ctx context.Context) (id uint64, said bool, err error) {
	m.calls(1)
	seen := 0
	for result, err := range m.client.ContractResults(ctx, mirror.ResultsQuery{Order: mirror.Descending}) {
		if seen++; seen > mirrorPage {
			break
		}
		switch {
		case err != nil:
			return 0, false, mirrored(err)
		case result.ChainID != nil && result.ChainID.Sign() > 0 && result.ChainID.IsUint64():
			return result.ChainID.Uint64(), true, nil
		}
	}
	return 0, false, nil
}

// head is the number of the newest block, if it is one of this chain.
func (m *mirrorNode) head(ctx context.Context) (uint64, error) {
	if err := m.check(ctx); err != nil {
		return 0, err
	}
	b, err := m.block(ctx, "latest")
	return b.Number, err
}

func (m *mirrorNode) block(ctx context.Context, tag string) (Block, error) {
	m.calls(1)
	if tag == "latest" || tag == "finalized" {
		return told(m.client.LatestBlock(ctx))
	}
	number, err := hexutil.DecodeUint64(tag)
	if err != nil {
		return Block{}, err
	}
	return told(m.client.BlockByNumber(ctx, number))
}

func (m *mirrorNode) blockByHash(ctx context.Context, hash common.Hash) (Block, error) {
	m.calls(1)
	return told(m.client.BlockByHash(ctx, hash))
}

func told(b *mirror.Block, err error) (Block, error) {
	if err != nil {
		return Block{}, mirrored(err)
	}
	return Block{Number: b.Number, Hash: b.Hash, Parent: b.ParentHash, Time: uint64(b.From.Seconds)}, nil
}

// logs asks for the extent's last block first: a mirror node publishes a block together with its logs. One of several behind an address may not have it yet.
func (m *mirrorNode) logs(ctx context.Context, w extent, q Query) (answer, error) {
	m.calls(1)
	var last *mirror.Block
	var err error
	if w.hash != nil {
		last, err = m.client.BlockByHash(ctx, *w.hash)
	} else {
		last, err = m.client.BlockByNumber(ctx, w.to)
	}
	if err != nil {
		return answer{}, mirrored(err)
	}
	first := last
	if w.from != w.to {
		m.calls(1)
		if first, err = m.client.BlockByNumber(ctx, w.from); err != nil {
			return answer{}, mirrored(err)
		}
	}
	search := mirror.LogsQuery{Period: mirror.Period{From: first.From, To: last.To}, SingleBlock: w.from == w.to, FirstBlock: w.from}
	if last.To.Time().Sub(first.From.Time()) > longestSearch {
		return answer{}, fmt.Errorf("%w: blocks %d to %d are more than seven days", errRefused, w.from, w.to)
	}
	if len(q.Events) <= topicsPerQuery && !q.All {
		search.Topics[0] = q.Events
	}
	a := answer{one: w.hash != nil, blank: w.hash != nil && last.Count == 0}
	a.last, _ = told(last, nil)
	if len(last.Bloom) == types.BloomByteLength {
		a.bloom = types.Bloom(last.Bloom)
	}
	maximum := maxLists
	if w.hash != nil {
		maximum = maxListsOfBlock
	}
	addresses := []*common.Address{nil} // of all contracts
	if len(q.Addresses) <= maximum {
		addresses = addresses[:0]
		for address := range q.Addresses {
			addresses = append(addresses, &address)
		}
	}
	for _, search.Address = range addresses {
		logs, err := m.client.Logs(ctx, search)
		m.calls(1 + len(logs)/mirrorPage)
		if err != nil {
			return answer{}, mirrored(err)
		}
		if err := a.hear(w, q, logs); err != nil {
			return answer{}, err
		}
	}
	return a, nil
}

// hear keeps what is wanted of a mirror node's logs.
func (a *answer) hear(w extent, q Query, logs []*mirror.Log) error {
	for _, l := range logs {
		if err := a.add(w, q, Log{
			Address: l.Address, Topics: l.Topics, Data: l.Data, BlockNumber: uint64(l.BlockNumber),
			BlockHash: l.BlockHash, TxHash: l.TxHash, Index: uint64(l.Index), Time: uint64(l.BlockTime),
		}); err != nil {
			return err
		}
	}
	return nil
}

// whole asks for all logs of a block, until there are some. They are complete if they explain the block's filter, or the block is so old that every mirror node has them.
func (m *mirrorNode) whole(ctx context.Context, w extent, q Query, _ types.Bloom) (a answer, complete bool, err error) {
	m.calls(2)
	block, err := m.client.BlockByHash(ctx, *w.hash)
	if err != nil {
		return answer{}, false, mirrored(err)
	}
	logs, err := m.client.BlockLogs(ctx, block, mirror.LogsQuery{})
	if err != nil {
		return answer{}, false, mirrored(err)
	}
	a.last, _ = told(block, nil)
	err = a.hear(w, q, logs)
	return a, block.HasAll(logs) || block.Settled(), err
}

// mirrored gives an error of a mirror node its meaning here.
func mirrored(err error) error {
	var more *mirror.PagesError
	var answered *mirror.Error
	switch {
	case errors.Is(err, mirror.ErrNotFound):
		return ErrNotFound
	case errors.As(err, &more):
		return fmt.Errorf("%w: %w", errRefused, err)
	case !errors.As(err, &answered):
		return err
	}
	switch answered.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, mirror.StatusNoAnswer:
		return err
	default:
		return fmt.Errorf("%w: %w", errRefused, err)
	}
}
