package mirror

import (
	"context"
	"encoding/hex"
	"iter"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/capacity"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/mirror/fetch"
)

// ContractResult is what became of a transaction in the EVM. A complete one is
// final and must not be changed.
type ContractResult struct {
	Hash        common.Hash
	BlockHash   common.Hash // the first 32 of 48 bytes; zero while the block is unknown
	BlockNumber *uint64     // nil while the block is unknown
	Index       *uint64     // position in the block; nil while unknown and for what never ran
	Timestamp   hedera.Timestamp

	Result       string // a response code; SUCCESS if all went well
	Status       uint64 // 1 or 0, as in Ethereum receipts
	ErrorMessage string

	From     common.Address  // often the long-zero address of the sender
	To       *common.Address // as signed; nil for a creation
	Address  *common.Address // the contract that was called or created
	Contract hedera.ID
	Created  []hedera.ID // contracts that the transaction created

	Type           *uint64 // nil if it was no Ethereum transaction
	ChainID        *big.Int
	Nonce          *uint64
	GasLimit       uint64
	GasUsed        uint64
	GasPrice       *big.Int // weibar, as the next two; nil where the type has none
	MaxFee         *big.Int
	MaxTip         *big.Int
	Amount         *big.Int // weibar
	Input          []byte
	Output         []byte // what the call returned
	V, R, S        *big.Int
	AccessList     types.AccessList
	Authorizations []Authorization

	Bloom []byte
	Logs  []*Log // only of a single result, and without the fields of its block
}

// Authorization is an entry of an EIP-7702 authorization list.
type Authorization = eth.Authorization

// Complete tells whether the record knows its place in the chain.
func (r *ContractResult) Complete() bool {
	return r.Index != nil && r.blockKnown()
}

// Ran tells whether the record proves that the EVM ran the transaction, whatever its result is called: what
// ran used gas. Then the sender's nonce is spent.
func (r *ContractResult) Ran() bool { return r.Index != nil && r.GasUsed > 0 }

// NotRun tells whether the record proves that the transaction was refused before it ran, and is in no block.
func (r *ContractResult) NotRun() bool { return r.GasUsed == 0 && r.Index == nil && r.blockKnown() }

func (r *ContractResult) blockKnown() bool {
	return r.BlockNumber != nil && r.BlockHash != (common.Hash{})
}

// CreatedContract tells whether the transaction itself was a successful creation.
func (r *ContractResult) CreatedContract() bool {
	for _, id := range r.Created {
		if id == r.Contract && !id.IsZero() {
			return true
		}
	}
	return false
}

func (r *ContractResult) weight() int64 {
	n := int64(1200 + len(r.Input) + len(r.Output))
	for _, l := range r.Logs {
		n += l.weight()
	}
	return n
}

func readResult(r *reader, c *ContractResult) {
	r.object(func(key []byte) {
		switch string(key) {
		case "hash":
			c.Hash = r.hash()
		case "block_hash":
			c.BlockHash = r.hash()
		case "block_number":
			c.BlockNumber = r.optional()
		case "transaction_index":
			c.Index = r.optional()
		case "timestamp":
			c.Timestamp = r.time()
		case "result":
			c.Result = r.str()
		case "status":
			c.Status = r.smallQuantity()
		case "error_message":
			c.ErrorMessage = r.str()
		case "from":
			c.From = r.address()
		case "to":
			c.To = r.maybeAddress()
		case "address":
			c.Address = r.maybeAddress()
		case "contract_id":
			c.Contract = r.id()
		case "created_contract_ids":
			r.array(func() { c.Created = append(c.Created, r.id()) })
		case "logs":
			r.array(func() { c.Logs = append(c.Logs, readInnerLog(r)) })
		default:
			readEthereumFields(r, c, key)
		}
	})
	if c.BlockNumber != nil {
		r.note(*c.BlockNumber)
	}
}

// readEthereumFields reads the content of the transaction and its cost.
func readEthereumFields(r *reader, c *ContractResult, key []byte) {
	switch string(key) {
	case "type":
		c.Type = r.optional()
	case "chain_id":
		c.ChainID = r.quantity()
	case "nonce":
		c.Nonce = r.optional()
	case "gas_limit":
		c.GasLimit = r.uint64()
	case "gas_used":
		c.GasUsed = r.uint64()
	case "gas_price":
		c.GasPrice = r.quantity()
	case "max_fee_per_gas":
		c.MaxFee = r.quantity()
	case "max_priority_fee_per_gas":
		c.MaxTip = r.quantity()
	case "amount":
		c.Amount = r.big()
	case "function_parameters":
		c.Input = r.bytes()
	case "call_result":
		c.Output = r.bytes()
	case "v":
		c.V = r.big()
	case "r":
		c.R = r.quantity()
	case "s":
		c.S = r.quantity()
	case "access_list":
		c.AccessList = readAccessList(r)
	case "authorization_list":
		r.array(func() { c.Authorizations = append(c.Authorizations, readAuthorization(r)) })
	case "bloom":
		c.Bloom = r.bytes()
	default:
		r.skip()
	}
}

// smallQuantity reads a number in hex that fits 64 bits.
func (r *reader) smallQuantity() uint64 {
	n := r.quantity()
	if n == nil {
		return 0
	}
	if !n.IsUint64() {
		r.fail("want a number of 64 bits")
	}
	return n.Uint64()
}

// readAccessList reads a list of objects. Older mirror nodes give hex text of the encoded list instead, which is
// not shown.
func readAccessList(r *reader) (list types.AccessList) {
	if r.peek() == '"' {
		r.skip()
		return nil
	}
	r.array(func() {
		var entry types.AccessTuple
		r.object(func(key []byte) {
			switch string(key) {
			case "address":
				entry.Address = r.address()
			case "storage_keys", "storageKeys":
				r.array(func() { entry.StorageKeys = append(entry.StorageKeys, r.word32()) })
			default:
				r.skip()
			}
		})
		list = append(list, entry)
	})
	return list
}

func readAuthorization(r *reader) (a Authorization) {
	r.object(func(key []byte) {
		switch string(key) {
		case "chain_id", "chainId":
			a.ChainID = r.quantity()
		case "address":
			a.Address = r.address()
		case "nonce":
			a.Nonce = r.uint64()
		case "y_parity", "yParity", "yparity":
			a.YParity = r.anyNumber()
		case "r":
			a.R = r.quantity()
		case "s":
			a.S = r.quantity()
		default:
			r.skip()
		}
	})
	return a
}

// anyNumber reads a number that may be written in hex or as a JSON number.
func (r *reader) anyNumber() uint64 {
	if r.peek() == '"' {
		return r.smallQuantity()
	}
	return r.uint64()
}

const resultLabel = "contracts/results/{transactionIdOrHash}"

// ContractResult returns what became of the transaction with that hash, or ErrNotFound. An incomplete record is
// looked at again for a while; if it stays incomplete, it is returned together with ErrImmature. A record of a
// transaction that was refused before it ran never completes: it is returned at once, and Refused recognizes it.
func (c *Client) ContractResult(ctx context.Context, hash common.Hash) (*ContractResult, error) {
	if r, ok := c.results.get(hash); ok {
		return r, nil
	}
	if r := stored(ctx, c, kindResult, hash.Hex(), resultFields); r != nil && r.Complete() {
		c.learn(*r.BlockNumber)
		c.results.put(hash, r, r.weight())
		return r, nil
	}
	var result *ContractResult
	err := c.untilMature(ctx, func(ctx context.Context) (bool, error) {
		var err error
		result, err = get(ctx, c, resultLabel, "contracts/results/"+hash.Hex()+"?hbar=false", readResult)
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
	return get(ctx, c, resultLabel, "contracts/results/"+id.Mirror()+"?hbar=false", readResult)
}

func (c *Client) keepResult(hash common.Hash, r *ContractResult) {
	if r.Complete() {
		c.observe(*r.BlockNumber)
		c.results.put(hash, r, r.weight())
		store(c, kindResult, hash.Hex(), r, resultFields)
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
// before it ran: it is in no block and never will be. What used gas may have run,
// if the name of its result can mean that, too.
func (c *Client) Refused(r *ContractResult) bool {
	refused := func(name string) bool {
		status, _ := hedera.ParseStatus(name)
		return c.never[name] && (r.GasUsed == 0 || !hedera.AlsoFromRun(status))
	}
	return !r.Complete() && (refused(r.Result) || refused(decodeASCII(r.ErrorMessage)))
}

// decodeASCII reads text that may be written in hex.
func decodeASCII(text string) string {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return text
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return text
	}
	return string(raw)
}

// ResultsQuery selects contract results. Fields that are nil, and a zero Period, do not select.
type ResultsQuery struct {
	Contract    *common.Address
	From        *common.Address
	Period      Period
	BlockNumber *uint64
	BlockHash   *common.Hash
	Index       *uint64 // needs BlockNumber or BlockHash
	Order       Order   // Ascending if empty
	Limit       int     // per page; the configured size if 0
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
	if q.Index != nil {
		b.add("transaction.index", decimal(*q.Index))
	}
	q.Period.add(&b)
	if q.Limit == 0 {
		q.Limit = c.config.PageSize
	}
	if q.Order == "" {
		q.Order = Ascending
	}
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
		maxPages: c.config.MaxResultPages, read: readResult,
	}
}

// ResultAt returns the result at a place in a block, or ErrNotFound, or ErrImmature.
func (c *Client) ResultAt(ctx context.Context, q ResultsQuery) (*ContractResult, error) {
	q.Limit = 1
	path := c.resultsPath(q)
	var result *ContractResult
	err := c.untilMature(ctx, func(ctx context.Context) (bool, error) {
		page, err := c.resultList(path).page(ctx, c, path)
		if err != nil {
			return false, err
		}
		if len(page.items) == 0 {
			return false, ErrNotFound
		}
		result = page.items[0]
		return result.Complete(), nil
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// BlockResults returns all complete results of a block in their order. It waits for incomplete records and gives
// up with ErrImmature. The slice and what it points to are shared; it is nil if the mirror node has no list, not
// even an empty one.
func (c *Client) BlockResults(ctx context.Context, block *Block) ([]*ContractResult, error) {
	return c.wholeBlock(ctx, block.Number, block.GasUsed > 0, func(ctx context.Context) ([]*ContractResult, error) {
		return sliced(ctx, c, block, func(ctx context.Context, slice Period) ([]*ContractResult, error) {
			return c.resultsOfBlock(ctx, ResultsQuery{Period: slice})
		})
	})
}

// BlockResultsByNumber is BlockResults for a block of which only the number is known.
func (c *Client) BlockResultsByNumber(ctx context.Context, number uint64) ([]*ContractResult, error) {
	return c.wholeBlock(ctx, number, true, func(ctx context.Context) ([]*ContractResult, error) {
		return c.resultsOfBlock(ctx, ResultsQuery{BlockNumber: &number})
	})
}

// resultsOfBlock lists results of a block that exists. It returns ErrNotFound if there is no list of them: unlike
// an empty list, a missing one may appear later.
func (c *Client) resultsOfBlock(ctx context.Context, q ResultsQuery) ([]*ContractResult, error) {
	l := c.resultList(c.resultsPath(q))
	l.exists = true
	return collect(l.items(ctx, c))
}

// wholeBlock keeps what read returns, unless that is empty although the block may hold something: one of several
// mirror nodes behind an address can lag.
func (c *Client) wholeBlock(ctx context.Context, number uint64, some bool, read func(context.Context) ([]*ContractResult, error)) ([]*ContractResult, error) {
	if all, ok := c.lists.get(number); ok {
		return all, hold(ctx, weightOf(all))
	}
	if all := stored(ctx, c, kindResults, decimal(number), resultsFields); all != nil {
		c.learn(number)
		c.lists.put(number, *all, weightOf(*all))
		return *all, hold(ctx, weightOf(*all))
	}
	var complete []*ContractResult
	err := c.untilMature(ctx, func(ctx context.Context) (enough bool, err error) {
		all, err := read(ctx)
		if err != nil {
			return false, err
		}
		complete, enough = c.completeOf(all)
		return enough, nil
	})
	if err != nil || some && len(complete) == 0 {
		return complete, absent(err)
	}
	c.lists.put(number, complete, weightOf(complete))
	store(c, kindResults, decimal(number), &complete, resultsFields)
	return complete, nil
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
