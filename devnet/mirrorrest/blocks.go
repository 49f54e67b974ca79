package mirrorrest

import (
	"sort"
	"strconv"

	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

// hapiVersion is the release of the network's services whose behaviour the
// devnet has.
const hapiVersion = "0.75.0"

type blockJSON struct {
	Count        int       `json:"count"`
	GasUsed      uint64    `json:"gas_used"`
	HAPIVersion  string    `json:"hapi_version"`
	Hash         string    `json:"hash"`
	LogsBloom    string    `json:"logs_bloom"`
	Name         string    `json:"name"`
	Number       int64     `json:"number"`
	PreviousHash string    `json:"previous_hash"`
	Size         int       `json:"size"`
	Timestamp    rangeJSON `json:"timestamp"`
}

// A rangeJSON is a span of time with both ends in it; To is null while it lasts.
type rangeJSON struct {
	From string  `json:"from"`
	To   *string `json:"to"`
}

type blocksJSON struct {
	Blocks []blockJSON `json:"blocks"`
	paged
}

func blockOf(b *ledger.Block) blockJSON {
	return blockJSON{
		Count:        len(b.Records),
		GasUsed:      b.GasUsed,
		HAPIVersion:  hapiVersion,
		Hash:         hexText(b.Hash[:]),
		LogsBloom:    hexText(b.Bloom[:]),
		Name:         recordFileName(b.From),
		Number:       b.Number,
		PreviousHash: hexText(b.Previous[:]),
		Size:         b.Size,
		Timestamp:    rangeJSON{From: b.From.String(), To: ptr(b.To.String())},
	}
}

// recordFileName names the record file of a block by its first transaction.
func recordFileName(first hedera.Timestamp) string {
	at := first.Time().Format("2006-01-02T15_04_05.000000000Z")
	return at + ".rcd.gz"
}

// listBlocks answers blocks.
func listBlocks(r *request) (any, error) {
	q, err := r.query(params{"block.number": isBlockNumber, "timestamp": isTime}, descending)
	if err != nil {
		return nil, err
	}
	numbers, times := q.bounds("block.number", parseBlockNumber), q.timestamps()
	blocks := r.view.Blocks()
	low, high := numbers.span()
	first := sort.Search(len(blocks), func(i int) bool { return blocks[i].Number >= low })
	end := sort.Search(len(blocks), func(i int) bool { return blocks[i].Number > high })
	earliest, latest := times.span()
	first = max(first, sort.Search(len(blocks), func(i int) bool { return blocks[i].To.UnixNano() >= earliest }))
	end = min(end, sort.Search(len(blocks), func(i int) bool { return blocks[i].To.UnixNano() > latest }))

	out := blocksJSON{Blocks: []blockJSON{}}
	for n := range end - first {
		b := blocks[first+n]
		if q.desc {
			b = blocks[end-1-n]
		}
		if !numbers.allows(b.Number) || !times.allows(b.To.UnixNano()) {
			continue
		}
		if out.Blocks = append(out.Blocks, blockOf(b)); len(out.Blocks) == q.limit {
			full := !numbers.ends(b.Number, q.desc)
			out.Links = q.next(r.self(), full, cursor{name: "block.number", value: decimal(b.Number)})
			break
		}
	}
	return out, nil
}

// getBlock answers blocks/{hashOrNumber}.
func getBlock(r *request) (any, error) {
	if _, err := r.query(nil, single); err != nil {
		return nil, err
	}
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
func (r *request) findBlock(text string) (block *ledger.Block, ok, valid bool) {
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

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
