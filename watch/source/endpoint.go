package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/ethrpc"
	"lockstep/internal/outage"
)

// reader is what an endpoint can be asked, whatever it speaks. A block that it does not have is ErrNotFound; a query that it
// refuses, perhaps because it covers too much, is errRefused.
type reader interface {
	// check refuses an endpoint of another chain.
	check(ctx context.Context) error
	// block reads the block of a tag: latest, finalized, or a number such as 0x1f.
	block(ctx context.Context, tag string) (Block, error)
	blockByHash(ctx context.Context, hash common.Hash) (Block, error)
	// logs reads the logs of an extent and proves that the endpoint has the extent's last block.
	logs(ctx context.Context, w extent, q Query) (answer, error)
	// whole reads the wanted logs of a block among all of its logs, and tells whether those make up the block's filter.
	whole(ctx context.Context, w extent, q Query, b types.Bloom) (a answer, complete bool, err error)
	// transactions reads the wanted transactions of an extent's blocks, with what came of them.
	transactions(ctx context.Context, w extent, want func(*Transaction) bool) ([]Transaction, error)
}

// endpoint is one URL and what is known of it.
type endpoint struct {
	reader
	*ethrpc.Endpoint // its name, its head, and, if it speaks JSON-RPC, whether it rests or is silent

	mu        sync.Mutex
	span      uint64 // blocks that one query may cover
	proven    uint64 // longest span that was answered
	tooLong   uint64 // shortest span that was refused; 0: none was
	answered  int    // in a row, at the longest span that is below that
	patience  int    // how many those have to be until a longer one is tried
	bloomless bool   // it was told that its blocks have no filter
	refusals  int    // in a row, of a block's receipts, for reasons that say nothing of them
	refused   time.Time

	outage.Rest // after an answer that proves nothing
}

// mirrorScheme begins the URL of a mirror node's REST interface.
const mirrorScheme = "mirror+"

// CheckURL tells whether an endpoint can have a URL.
func CheckURL(raw string) error {
	url, isMirror := strings.CutPrefix(raw, mirrorScheme)
	if ethrpc.CheckURL(url) != nil || isMirror && !strings.HasPrefix(url, "http") {
		return errScheme
	}
	return nil
}

var errScheme = errors.New("an endpoint's URL is not of the form http://host, https://host, ws://host, wss://host, or mirror+https://host for a Hedera mirror node")

// named says of an error which endpoint it is about.
func (e *endpoint) named(err error) error {
	if answer, is := errors.AsType[*ethrpc.Error](err); is && answer.Endpoint != "" {
		return err
	}
	return fmt.Errorf("%s: %w", e.Name(), err)
}

// failures are those of several endpoints. One that was asked twice has one.
type failures struct {
	by      []*endpoint
	errs    []error
	lacking []*endpoint
}

// lack returns how many endpoints have said that they do not have the block.
func (f *failures) lack(e *endpoint) int {
	if !slices.Contains(f.lacking, e) {
		f.lacking = append(f.lacking, e)
	}
	return len(f.lacking)
}

func (f *failures) add(e *endpoint, err error) {
	e.failed(err)
	if !slices.Contains(f.by, e) {
		f.by, f.errs = append(f.by, e), append(f.errs, e.named(err))
	}
}

// An endpoint that fails so often when it is asked for a block's receipts is taken for one that has none, for so long: some refuse the method in the words of a limit, and are not asked for
// anything for a while after that.
const (
	mostRefusals = 3
	refusedFor   = 10 * time.Minute
)

// withoutReceipts reports whether an endpoint is taken for one that has no receipts.
func (e *endpoint) withoutReceipts() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refusals >= mostRefusals && time.Since(e.refused) < refusedFor
}

// gaveReceipts notes whether an endpoint has said that it has a block's receipts, or that it has not.
func (e *endpoint) gaveReceipts(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil || errors.Is(err, ErrNotFound) {
		e.refusals = 0
		return
	}
	e.refusals, e.refused = e.refusals+1, time.Now()
}

// quiet returns since when an endpoint is silent; the zero time if it is not, or if that is not known: a mirror node is asked by a client of its own.
func (e *endpoint) quiet() time.Time {
	if e == nil {
		return time.Time{}
	}
	return e.Quiet()
}

// failed has the endpoint rest, longer with each failure in a row, unless its client has seen to that.
func (e *endpoint) failed(err error) {
	if _, speaks := e.reader.(jsonRPC); !speaks || !ethrpc.ClassOf(err).AboutEndpoint() {
		e.Failed()
	}
}

// firstPatience is how many queries an endpoint has to answer near its limit before it is asked for more than that. The number doubles each time
// that it refuses again: a limit of so many blocks does not change, one of so many logs does.
const firstPatience = 64

// grow has the next query cover more, after one that covered all that it may. Between what was answered and what was refused it goes half the
// way, until that is not worth a refusal any more.
func (e *endpoint) grow(maximum uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.proven = max(e.proven, e.span)
	if e.proven >= e.tooLong { // the limit is another by now
		e.tooLong, e.patience, e.answered = 0, firstPatience, 0
	}
	switch {
	case e.tooLong == 0:
		e.span += e.span/2 + 1
	case e.span+max(e.span/8, 1) < e.tooLong:
		e.span = (e.span + e.tooLong) / 2
	default:
		if e.answered++; e.answered >= e.patience {
			e.answered, e.patience = 0, min(2*e.patience, maxPatience)
			e.span = e.tooLong // once more
		}
	}
	e.span = min(e.span, maximum)
}

const maxPatience = 1 << 14

// shrink has the next query cover less than one that was refused: what was answered before, or half of it.
func (e *endpoint) shrink(refused uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proven >= refused { // it was, of other blocks
		e.proven = 0
	}
	e.span, e.tooLong, e.answered = max(refused/2, e.proven, 1), refused, 0
	e.patience = max(e.patience, firstPatience)
}
