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

	"lockstep/internal/ethrpc"
	"lockstep/internal/outage"
)

// reader is what an endpoint can be asked, whatever it speaks. A block that it does not have is ErrNotFound; a query that it
// refuses, perhaps because it covers too much, is errRefused.
type reader interface {
	// check refuses an endpoint of another chain.
	check(ctx context.Context) error
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
	span      uint64    // blocks that one query may cover
	tooLong   uint64    // span that was refused, raised a little by each answer near it; 0: none was
	bloomless bool      // it was told that its blocks have no filter
	head      uint64    // the newest block that it has shown
	headAt    time.Time // when it showed it first

	// The rest after an answer that proves nothing. A client of JSON-RPC has a rest of its own besides.
	outage.Rest
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
		if e.reader, err = newMirrorNode(strings.TrimPrefix(raw, mirrorScheme), cfg, calls); err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", u.Host, err)
		}
	}
	return e, nil // the reader of JSON-RPC comes from a client of all such URLs
}

var errScheme = errors.New("an endpoint's URL is not of the form http://host, https://host, ws://host, wss://host, or mirror+https://host for a Hedera mirror node")

// named says of an error which endpoint it is about, without the URL, which may hold a key.
func (e *endpoint) named(err error) error {
	var answer *ethrpc.Error
	if errors.As(err, &answer) && answer.Endpoint != "" {
		return err // it names it
	}
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	return fmt.Errorf("%s: %w", e.name, err)
}

// rests tells whether an endpoint is to be asked last, and whether it wants not to be asked at all.
func (e *endpoint) rests() (resting, closed bool) {
	if j, ok := e.reader.(jsonRPC); ok {
		resting, closed = j.Rests()
	}
	return resting || e.Resting(), closed
}

// failed has the endpoint rest, longer with each failure in a row, unless its client has seen to that.
func (e *endpoint) failed(err error) {
	if class := ethrpc.ClassOf(err); !class.AboutEndpoint() {
		e.Failed()
	}
}

func (e *endpoint) succeeded() { e.Well() }

// showed notes the newest block that an endpoint has shown.
func (e *endpoint) showed(number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.headAt.IsZero() || e.head != number {
		e.head, e.headAt = number, time.Now()
	}
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
