package mirror

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/big"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/hedera"
	"lockstep/internal/relay/capacity"
	"lockstep/mirror/fetch"
)

// ContractResult is what became of a transaction in the EVM. A complete one is
// final and must not be changed.
type ContractResult struct {
	Hash        common.Hash      `json:"hash"`
	BlockHash   common.Hash      `json:"block_hash"`        // the first 32 of 48 bytes; zero while the block is unknown
	BlockNumber *uint64          `json:"block_number"`      // nil while the block is unknown
	BlockGas    *uint64          `json:"block_gas_used"`    // of all in the block; nil if not told
	Index       *uint64          `json:"transaction_index"` // position in the block; nil while unknown and for what never ran
	Timestamp   hedera.Timestamp `json:"timestamp"`

	Result       string `json:"result"` // a response code; SUCCESS if all went well
	Status       uint64 `json:"status"` // 1 or 0, as in Ethereum receipts
	ErrorMessage string `json:"error_message"`

	From     common.Address  `json:"from"`    // often the long-zero address of the sender
	To       *common.Address `json:"to"`      // as signed; nil for a creation
	Address  *common.Address `json:"address"` // the contract that was called or created
	Contract hedera.ID       `json:"contract_id"`
	Created  []hedera.ID     `json:"created_contract_ids"` // contracts that the transaction created

	Type           *uint64                      `json:"type"` // nil if it was no Ethereum transaction
	ChainID        *big.Int                     `json:"chain_id"`
	Nonce          *uint64                      `json:"nonce"`
	GasLimit       uint64                       `json:"gas_limit"`
	GasUsed        uint64                       `json:"gas_used"`
	GasPrice       *big.Int                     `json:"gas_price"` // weibar, as the next two; nil where the type has none
	MaxFee         *big.Int                     `json:"max_fee_per_gas"`
	MaxTip         *big.Int                     `json:"max_priority_fee_per_gas"`
	Amount         *big.Int                     `json:"amount"` // weibar
	Input          []byte                       `json:"function_parameters"`
	Output         []byte                       `json:"call_result"` // what the call returned
	V              *big.Int                     `json:"v"`
	R              *big.Int                     `json:"r"`
	S              *big.Int                     `json:"s"`
	AccessList     types.AccessList             `json:"access_list"`
	Authorizations []types.SetCodeAuthorization `json:"authorization_list"`

	Bloom []byte `json:"bloom"`
	Logs  []*Log `json:"logs"` // only of a single result, and without the fields of its block
}

// Complete tells whether the record knows its place in the chain.
func (r *ContractResult) Complete() bool {
	return r.Index != nil && r.blockKnown()
}

// Ran tells whether the record proves that the EVM ran the transaction, whatever its result is called: what
// ran used gas. Then the sender's nonce is spent.
func (r *ContractResult) Ran() bool { return r.Index != nil && r.GasUsed > 0 }

// NotRun tells whether the record proves that the transaction was refused before it ran, and is in no block.
func (r *ContractResult) NotRun() bool {
	return r.GasUsed == 0 && r.Status == 0 && r.Index == nil && r.blockKnown()
}

func (r *ContractResult) blockKnown() bool {
	return r.BlockNumber != nil && r.BlockHash != (common.Hash{})
}

// CreatedContract tells whether the transaction itself was a successful creation.
func (r *ContractResult) CreatedContract() bool {
	return !r.Contract.IsZero() && slices.Contains(r.Created, r.Contract)
}

func (r *ContractResult) weight() int64 {
	n := int64(1200 + len(r.Input) + len(r.Output))
	for _, l := range r.Logs {
		n += l.weight()
	}
	return n
}

func (r *ContractResult) newest() uint64 {
	if r.BlockNumber == nil {
		return 0
	}
	return *r.BlockNumber
}

const resultLabel = "contracts/results/{transactionIdOrHash}"

// ContractResult returns what became of the transaction with that hash, or ErrNotFound. An incomplete record is
// looked at again for a while; if it stays incomplete, it is returned together with ErrImmature. A record of a
// transaction that was refused before it ran never completes: it is returned at once, and Refused recognizes it.
func (c *Client) ContractResult(ctx context.Context, hash common.Hash) (*ContractResult, error) {
	if r, ok := c.results.get(hash); ok {
		return r, nil
	}
	if r := stored[ContractResult](ctx, c, kindResult, hash.Hex()); r != nil && r.Complete() {
		c.learn(*r.BlockNumber)
		c.results.put(hash, r, r.weight())
		return r, nil
	}
	var result *ContractResult
	err := c.untilMature(ctx, func(ctx context.Context) (bool, error) {
		var err error
		path := "contracts/results/" + hash.Hex() + "?hbar=false"
		result, err = getOf(ctx, c, resultLabel, path, func(r *ContractResult) bool { return r.Hash == hash })
		return err == nil && (result.Complete() || c.Refused(result)), err
	})
	if err == nil {
		c.keepResult(hash, result)
	}
	return result, err
}

// ContractResultByID is one look at what became of a Hedera transaction, by its id.
// The record may be incomplete.
func (c *Client) ContractResultByID(ctx context.Context, id hedera.TransactionID) (*ContractResult, error) {
	return get[ContractResult](ctx, c, resultLabel, "contracts/results/"+id.Mirror()+"?hbar=false")
}

func (c *Client) keepResult(hash common.Hash, r *ContractResult) {
	if r.Complete() {
		c.observe(*r.BlockNumber)
		c.results.put(hash, r, r.weight())
		store(c, kindResult, hash.Hex(), r)
	}
}

// untilMature repeats look until it says that it is enough. The pauses grow, since most records complete soon.
// The request does not hold what earlier looks read.
func (c *Client) untilMature(ctx context.Context, look func(context.Context) (bool, error)) error {
	const firstPause = 100 * time.Millisecond
	longest := c.config.RetryDelay.Duration()
	pause := min(firstPause, longest)
	for attempt := 1; ; attempt++ {
		looking, held := capacity.Part(ctx)
		enough, err := look(looking)
		if enough || err != nil {
			return err
		}
		held.Close()
		if attempt >= c.config.ImmatureAttempts {
			return ErrImmature
		}
		if !fetch.Pause(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, longest)
	}
}

// Refused tells whether the record is of a transaction that the network refused
// before it ran: it is in no block and never will be. The record says so itself, whatever
// its result is called, or the name of the result does while the block is not known. What
// used gas may have run, if the name can mean that, too.
func (c *Client) Refused(r *ContractResult) bool {
	refused := func(name string) bool {
		status, _ := hedera.ParseStatus(name)
		return c.never[name] && (r.GasUsed == 0 || !hedera.AlsoFromRun(status))
	}
	return !r.Complete() && (r.NotRun() || refused(r.Result) || refused(decodeASCII(r.ErrorMessage)))
}

// ResultsQuery selects contract results. Fields that are nil, and a zero Period, do not select.
type ResultsQuery struct {
	Contract    *common.Address
	From        *common.Address
	Period      Period
	BlockNumber *uint64
	BlockHash   *common.Hash
	Order       Order // Ascending if empty
	Limit       int   // per page; the configured size if 0
}

func (c *Client) resultsPath(q ResultsQuery) string {
	var b query
	if q.From != nil {
		b.add("from", lowerHex(*q.From))
	}
	if q.BlockNumber != nil {
		b.add("block.number", decimal(*q.BlockNumber))
	}
	if q.BlockHash != nil {
		b.add("block.hash", q.BlockHash.Hex())
	}
	q.Period.add(&b)
	q.Limit = cmp.Or(q.Limit, c.config.PageSize)
	q.Order = cmp.Or(q.Order, Ascending)
	b.add("limit", decimal(uint64(q.Limit)))
	b.add("order", string(q.Order))
	b.add("hbar", "false")
	if q.Contract != nil {
		return "contracts/" + lowerHex(*q.Contract) + "/results" + b.String()
	}
	return "contracts/results" + b.String()
}

// ContractResults lists contract results by time. They have no logs, and may be incomplete.
func (c *Client) ContractResults(ctx context.Context, q ResultsQuery) iter.Seq2[*ContractResult, error] {
	return c.resultList(c.resultsPath(q)).items(ctx, c)
}

func (c *Client) resultList(path string) list[ContractResult] {
	return list[ContractResult]{
		label: "contracts/results", path: path, member: "results",
		maxPages: c.config.MaxResultPages,
	}
}

// BlockResults returns all complete results of a block in their order. It waits for incomplete records, and while the block
// is new for those that its gas says are missing: one of several mirror nodes behind an address can lag, and give a part of a
// large block, or nothing of any. It gives up with ErrImmature. The slice and what it points to are shared.
func (c *Client) BlockResults(ctx context.Context, block *Block) ([]*ContractResult, error) {
	return c.wholeBlock(ctx, block, func(ctx context.Context) ([]*ContractResult, error) {
		return sliced(ctx, c, block, func(ctx context.Context, slice Period) ([]*ContractResult, error) {
			return c.listOfBlock(ctx, ResultsQuery{Period: slice})
		})
	})
}

// BlockResultsOf is BlockResults for the block of a complete result.
func (c *Client) BlockResultsOf(ctx context.Context, r *ContractResult) ([]*ContractResult, error) {
	if r.BlockGas == nil {
		return c.ResultsOfBlock(ctx, *r.BlockNumber)
	}
	block := &Block{Number: *r.BlockNumber, GasUsed: *r.BlockGas, Period: Period{To: r.Timestamp}}
	return c.wholeBlock(ctx, block, func(ctx context.Context) ([]*ContractResult, error) {
		return c.listOfBlock(ctx, ResultsQuery{BlockNumber: r.BlockNumber})
	})
}

// ResultsOfBlock is BlockResults of the block with a number of which something is known already: where there is no such block, the answer
// is one of a mirror node that lags, and the error ErrImmature.
func (c *Client) ResultsOfBlock(ctx context.Context, number uint64) ([]*ContractResult, error) {
	block, err := c.BlockByNumber(ctx, number)
	if errors.Is(err, ErrNotFound) {
		return nil, ErrImmature
	}
	if err != nil {
		return nil, err
	}
	return c.BlockResults(ctx, block)
}

// listOfBlock lists results of a block that exists. It returns ErrNotFound if there is no list of them: unlike
// an empty list, a missing one may appear later.
func (c *Client) listOfBlock(ctx context.Context, q ResultsQuery) ([]*ContractResult, error) {
	l := c.resultList(c.resultsPath(q))
	l.exists = true
	return collect(l.items(ctx, c))
}

// wholeBlock keeps what read returns, unless it used less gas than the block, of which number, gas and end are known. In a new
// block that is not enough.
func (c *Client) wholeBlock(ctx context.Context, block *Block, read func(context.Context) ([]*ContractResult, error)) ([]*ContractResult, error) {
	if all, ok := c.lists.get(block.Number); ok {
		return all, hold(ctx, weightOf(all))
	}
	if all := stored[[]*ContractResult](ctx, c, kindResults, decimal(block.Number)); all != nil {
		c.learn(block.Number)
		c.lists.put(block.Number, *all, weightOf(*all))
		return *all, hold(ctx, weightOf(*all))
	}
	var complete []*ContractResult
	whole := false
	err := c.untilMature(ctx, func(ctx context.Context) (enough bool, err error) {
		all, err := read(ctx)
		if absent(err) != nil {
			return false, err
		}
		complete, enough = c.completeOf(all)
		used := gasOf(all)
		whole = err == nil && used >= block.GasUsed
		return enough && (used >= block.GasUsed || block.Settled()), nil
	})
	if err != nil || !whole {
		return complete, err
	}
	c.lists.put(block.Number, complete, weightOf(complete))
	store(c, kindResults, decimal(block.Number), &complete)
	return complete, nil
}

// gasOf is the gas that transactions used together.
func gasOf(results []*ContractResult) (sum uint64) {
	for _, r := range results {
		sum += r.GasUsed
	}
	return sum
}

// weightOf is about how many bytes a list takes.
func weightOf[T interface{ weight() int64 }](list []T) int64 {
	weight := int64(100)
	for _, item := range list {
		weight += item.weight()
	}
	return weight
}

// completeOf leaves out transactions that were refused before they ran; ok is false if a record is not complete
// yet.
func (c *Client) completeOf(all []*ContractResult) (complete []*ContractResult, ok bool) {
	complete = make([]*ContractResult, 0, len(all))
	for _, r := range all {
		switch {
		case r.Complete():
			complete = append(complete, r)
		case !c.Refused(r):
			return nil, false
		}
	}
	return complete, true
}
