package mirrorrest

import (
	"sort"

	"lockstep/devnet/ledger"
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

func blockOf(b *ledger.Block) any {
	return object{
		"count":         len(b.Records),
		"gas_used":      b.GasUsed,
		"hapi_version":  hapiVersion,
		"hash":          hexText(b.Hash[:]),
		"logs_bloom":    hexText(b.Bloom[:]),
		"name":          recordFileName(b.From),
		"number":        b.Number,
		"previous_hash": hexText(b.Previous[:]),
		"size":          b.Size,
		"timestamp":     rangeJSON{From: b.From.String(), To: ptr(b.To.String())},
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

	rows := where(inOrder(blocks[min(first, end):end], q.desc), func(b *ledger.Block) bool { return times.allows(b.To.UnixNano()) })
	numbered := byNumber("block.number", func(b *ledger.Block) int64 { return b.Number })
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
