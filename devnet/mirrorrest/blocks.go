package mirrorrest

import (
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hedera"
)

// hapiVersion is the release of the network's services whose behaviour the
// devnet has.
const hapiVersion = "0.75.0"

// A rangeJSON is a span of time with both ends in it; To is null while it lasts.
type rangeJSON struct {
	From string  `json:"from"`
	To   *string `json:"to"`
}

func blockOf(b *history.Block) any {
	return object{
		"count":         len(b.Records),
		"gas_used":      b.GasUsed,
		"hapi_version":  hapiVersion,
		"hash":          hexutil.Encode(b.Hash[:]),
		"logs_bloom":    hexutil.Encode(b.Bloom[:]),
		"name":          recordFileName(b.From),
		"number":        b.Number,
		"previous_hash": hexutil.Encode(b.Previous[:]),
		"size":          b.Size,
		"timestamp":     rangeJSON{From: b.From.String(), To: new(b.To.String())},
	}
}

// recordFileName names the record file of a block by its first transaction.
func recordFileName(first hedera.Timestamp) string {
	at := first.Time().Format("2006-01-02T15_04_05.000000000Z")
	return at + ".rcd.gz"
}

// listBlocks answers blocks.
func listBlocks(r *request, q *query) (any, error) {
	numbers, times := q.bounds("block.number", parseBlockNumber), q.timestamps()
	blocks := r.view.Blocks()
	low, high := numbers.span()
	first := sort.Search(len(blocks), func(i int) bool { return blocks[i].Number >= low })
	end := sort.Search(len(blocks), func(i int) bool { return blocks[i].Number > high })
	earliest, latest := times.span()
	first = max(first, sort.Search(len(blocks), func(i int) bool { return blocks[i].To.UnixNano() >= earliest }))
	end = min(end, sort.Search(len(blocks), func(i int) bool { return blocks[i].To.UnixNano() > latest }))

	rows := where(inOrder(blocks[min(first, end):end], q.desc), func(b *history.Block) bool { return times.allows(b.To.UnixNano()) })
	numbered := byNumber("block.number", func(b *history.Block) int64 { return b.Number })
	numbered.parse = parseBlockNumber
	return list(r, q, "blocks", rows, blockOf, numbered), nil
}

// getBlock answers blocks/{hashOrNumber}.
func getBlock(r *request, _ *query) (any, error) {
	block, ok, valid := r.findBlock(r.args[0])
	switch {
	case !valid:
		return nil, invalidParameter("hashOrNumber")
	case !ok:
		return nil, notFound()
	default:
		return blockOf(block), nil
	}
}

// findBlock reads a block's hash, or its decimal number.
func (r *request) findBlock(text string) (block *history.Block, ok, valid bool) {
	if hash, is := parseHash(text); is {
		block, ok = r.view.BlockByHash(hash)
		return block, ok, true
	}
	number, is := parseCount(text)
	if !is {
		return nil, false, false
	}
	block, ok = r.view.BlockByNumber(number)
	return block, ok, true
}

const (
	// longestWait bounds how long a request waits for a block.
	longestWait = 30 * time.Second
	// lagStep is how often a mirror node that lags checks whether it may show a block
	// that exists already.
	lagStep = 5 * time.Millisecond
)

// generationHeader tells clients when the network has gone back, which no real one does: the
// number of the history that the answer is of, and the newest block that was left when it began.
const generationHeader = "Lockstep-Generation"

func (s *server) sayGeneration(h http.Header) {
	g := s.View().Generation()
	h.Set(generationHeader, fmt.Sprintf("%d:%d", g.Number, g.Block))
}

// followBlocks answers /devnet/blocks?from=N&wait=MS, which no real mirror node has:
// the blocks from number N on, oldest first, as soon as there is one. After MS
// milliseconds without one the list is empty. Asking again from the number after the
// last one gives every block once, in order, without polling.
func (s *server) followBlocks(r *request, q *query) (any, error) {
	from := q.count("from", 0)
	s.awaitBlock(r, from, time.Duration(min(q.count("wait", 0), longestWait.Milliseconds()))*time.Millisecond)
	s.sayGeneration(r.header) // the network may have gone back meanwhile
	view, blocks := s.View(), []any{}
	for number := from; len(blocks) < maxLimit; number++ {
		block, ok := view.BlockByNumber(number)
		if !ok {
			break
		}
		blocks = append(blocks, blockOf(block))
	}
	return object{"blocks": blocks}, nil
}

// awaitBlock returns when the block of that number, or a later one, can be shown, when the
// network goes back, or when there is no more time.
func (s *server) awaitBlock(r *request, number int64, wait time.Duration) {
	if s.Changed == nil {
		return
	}
	changed, cancel := s.Changed()
	defer cancel()
	over := time.NewTimer(wait)
	defer over.Stop()
	var lagging <-chan time.Time
	begun := r.view.Generation().Number
	for v := s.View(); v.LatestBlock().Number < number && v.Generation().Number == begun; v = s.View() {
		select {
		case <-changed:
			lagging = time.After(lagStep) // if it is not shown yet, it will be
		case <-lagging:
			lagging = time.After(lagStep)
		case <-over.C:
			return
		case <-s.Closing:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// maxConsensusPage bounds one answer of the consensus log.
const maxConsensusPage = 1000

// listConsensus answers /devnet/consensus: the Ethereum transactions in the order
// in which consensus saw them, whatever became of them, from since on. Next is the
// since of the following page; it stays when there is nothing new.
func listConsensus(r *request, q *query) (any, error) {
	entries, next := []any{}, q.count("since", 0)
	for _, e := range r.view.ConsensusLog(next, int(max(1, min(q.count("limit", maxConsensusPage), maxConsensusPage)))) {
		entries = append(entries, object{
			"sequence": e.Sequence, "sender": e.Sender, "nonce": e.Nonce, "hash": e.Hash,
			"node": e.Node.String(), "status": e.Status.String(), "time": e.Time.String(),
		})
		next = e.Sequence + 1
	}
	return object{"entries": entries, "next": next}, nil
}

// getFees answers network/fees: the price of gas for each type of transaction
// that pays it. The devnet's price never changes.
func getFees(r *request, q *query) (any, error) {
	fees := []any{}
	for _, kind := range []string{"ContractCall", "ContractCreate", "EthereumTransaction"} {
		fees = append(fees, object{"gas": r.view.GasPrice(), "transaction_type": kind})
	}
	if order, _ := q.last("order"); strings.EqualFold(order, "desc") {
		slices.Reverse(fees)
	}
	return object{"fees": fees, "timestamp": r.asOf(q.timestamps()).Time().String()}, nil
}

// getExchangeRate answers network/exchangerate.
func getExchangeRate(r *request, q *query) (any, error) {
	rate := r.view.ExchangeRate()
	current := object{"cent_equivalent": rate.Cents, "expiration_time": rate.Expires, "hbar_equivalent": rate.Hbar}
	return object{"current_rate": current, "next_rate": current, "timestamp": r.asOf(q.timestamps()).Time().String()}, nil
}

// getSupply answers network/supply; with q it gives one number of ℏ as text.
func getSupply(r *request, q *query) (any, error) {
	view := r.asOf(q.timestamps())
	total, released := view.Supply()
	if total == 0 {
		return nil, notFound() // before the beginning
	}
	switch which, _ := q.last("q"); strings.ToLower(which) {
	case "totalcoins":
		return plain(hbars(total)), nil
	case "circulating":
		return plain(hbars(released)), nil
	}
	return object{"released_supply": decimal(int64(released)), "timestamp": view.Time().String(), "total_supply": decimal(int64(total))}, nil
}

func hbars(t hedera.Tinybar) string { return fmt.Sprintf("%d.%08d", t/hedera.Hbar, t%hedera.Hbar) }

func endpoint(host string, port int) object {
	return object{"domain_name": "", "ip_address_v4": host, "port": port}
}

// listNodes answers network/nodes: the address book.
func listNodes(r *request, q *query) (any, error) {
	file := hedera.Entity(addressBook)
	if text, given := q.last("file.id"); given {
		num, _ := parseEntity(text)
		if num != addressBook && num != nodeDetails {
			return nil, invalidParameter("file.id")
		}
		file = hedera.Entity(num)
	}
	return list(r, q, "nodes", inOrder(r.view.Nodes(), q.desc), func(n ledger.NodeInfo) any {
		endpoints := []object{endpoint(n.Host, n.Port)}
		if n.TLSPort != 0 {
			endpoints = append(endpoints, endpoint(n.Host, n.TLSPort))
		}
		return object{
			"admin_key":                   nil,
			"associated_registered_nodes": []int64{},
			"decline_reward":              false,
			"description":                 "",
			"file_id":                     file.String(),
			"grpc_proxy_endpoint":         nil,
			"max_stake":                   0,
			"memo":                        "",
			"min_stake":                   0,
			"node_account_id":             n.Account.String(),
			"node_cert_hash":              "0x" + n.CertHash,
			"node_id":                     n.NodeID,
			"public_key":                  "0x",
			"reward_rate_start":           0,
			"service_endpoints":           endpoints,
			"stake":                       0,
			"stake_not_rewarded":          0,
			"stake_rewarded":              0,
			"staking_period":              nil,
			"timestamp":                   rangeJSON{From: r.view.OldestBlock().From.String()},
		}
	}, byNumber("node.id", func(n ledger.NodeInfo) int64 { return n.NodeID })), nil
}

// The files in which a network keeps its address book, whole and in short.
const (
	nodeDetails = 101
	addressBook = 102
)

// getStake answers network/stake: nothing is staked on a devnet. A staking period
// is a day.
func getStake(r *request, _ *query) (any, error) {
	const day = 24 * 60 * 60
	now := r.view.Time().Seconds
	from := hedera.Timestamp{Seconds: now - now%day}
	to := hedera.Timestamp{Seconds: from.Seconds + day - 1, Nanos: 999_999_999}
	return object{
		"max_stake_rewarded":                0,
		"max_staking_reward_rate_per_hbar":  0,
		"max_total_reward":                  0,
		"node_reward_fee_fraction":          0,
		"reserved_staking_rewards":          0,
		"reward_balance_threshold":          0,
		"stake_total":                       0,
		"staking_period":                    rangeJSON{From: from.String(), To: new(to.String())},
		"staking_period_duration":           day / 60,
		"staking_periods_stored":            365,
		"staking_reward_fee_fraction":       0,
		"staking_reward_rate":               0,
		"staking_start_threshold":           0,
		"unreserved_staking_reward_balance": 0,
	}, nil
}
