package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// errTooLong means that an answer had more bytes than allowed.
var errTooLong = errors.New("the answer is too long")

// reader is what an endpoint can be asked, whatever it speaks. A block that it does not have is ErrNotFound; a query that it
// refuses, perhaps because it covers too much, is errRefused.
type reader interface {
	// chainID tells which chain is served. A mirror node cannot say it as long as it has nothing of a contract.
	chainID(ctx context.Context) (id uint64, said bool, err error)
	// number is that of the newest block.
	number(ctx context.Context) (uint64, error)
	// block reads the block of a tag: latest, finalized, or a number such as 0x1f.
	block(ctx context.Context, tag string) (Block, error)
	blockByHash(ctx context.Context, hash common.Hash) (Block, error)
	// logs reads the logs of an extent and proves that the endpoint has the extent's last block.
	logs(ctx context.Context, w extent, q Query) (answer, error)
	close()
}

// endpoint is one URL and what is known of it.
type endpoint struct {
	reader
	name string // host, for people: the rest of the URL may hold a key

	mu        sync.Mutex
	chainSeen bool          // it serves the chain that it should
	span      uint64        // blocks that one query may cover
	tooLong   uint64        // span that was refused, raised a little by each answer near it; 0: none was
	rest      time.Duration // of the last rest; 0 after a success
	restUntil time.Time
}

// mirrorScheme begins the URL of a mirror node's REST interface.
const mirrorScheme = "mirror+"

// CheckURL tells whether an endpoint can have a URL.
func CheckURL(raw string) error {
	_, err := parse(raw)
	return err
}

func parse(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, errScheme
	}
	switch u.Scheme {
	case "http", "https", "ws", "wss", mirrorScheme + "http", mirrorScheme + "https":
		return u, nil
	default:
		return nil, errScheme
	}
}

func newEndpoint(raw string, cfg Config, calls func(int)) (*endpoint, error) {
	u, err := parse(raw)
	if err != nil {
		return nil, err
	}
	e := &endpoint{name: u.Host, span: min(cfg.MaxSpan, firstSpan)}
	if strings.HasPrefix(u.Scheme, mirrorScheme) {
		e.reader, err = newMirrorNode(strings.TrimPrefix(raw, mirrorScheme), cfg, calls)
	} else {
		e.reader, err = newJSONRPC(u, cfg, calls)
	}
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", u.Host, err)
	}
	return e, nil
}

var errScheme = errors.New("an endpoint's URL is not of the form http://host, https://host, ws://host, wss://host, or mirror+https://host for a Hedera mirror node")

// named says of an error which endpoint it is about, without the URL, which may hold a key.
func (e *endpoint) named(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	return fmt.Errorf("%s: %w", e.name, err)
}

func (e *endpoint) rests() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Before(e.restUntil)
}

// failed has the endpoint rest, longer with each failure in a row.
func (e *endpoint) failed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rest = min(max(2*e.rest, firstRest), longestRest)
	e.restUntil = time.Now().Add(e.rest)
}

func (e *endpoint) succeeded() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rest, e.restUntil = 0, time.Time{}
}

// checkChain asks an endpoint once which chain it serves.
func (p *Pool) checkChain(ctx context.Context, e *endpoint) error {
	e.mu.Lock()
	seen := e.chainSeen
	e.mu.Unlock()
	if seen {
		return nil
	}
	id, said, err := e.chainID(ctx)
	if err != nil || !said { // what has said nothing yet has no logs, either
		return err
	}
	if id != p.cfg.ChainID {
		return fmt.Errorf("it serves chain %d, not chain %d", id, p.cfg.ChainID)
	}
	e.mu.Lock()
	e.chainSeen = true
	e.mu.Unlock()
	return nil
}

// grow has the next query cover more, after one that covered all that it may. What was refused is approached again slowly: each
// refusal costs a query.
func (e *endpoint) grow(maximum uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := min(e.span+e.span/2+1, maximum)
	if e.tooLong > 0 && next >= e.tooLong {
		next = max(e.span, e.tooLong-e.tooLong/8-1)
		e.tooLong += e.tooLong/256 + 1
	}
	e.span = next
}

// shrink has the next query cover half of one that was refused.
func (e *endpoint) shrink(refused uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.span, e.tooLong = max(refused/2, 1), refused
}
