package bench

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/sleep"
)

const (
	defaultHTTPConnections = 1024
	defaultWSConnections   = 8 // relays allow 10, and state is asked over one more, or two with Compare
	// cancelGrace is how long a cancelled run waits for the answers on their way: they
	// make the partial report truer.
	cancelGrace = 2 * time.Second
)

// load is what sending a plan measured.
type load struct {
	*tally
	start    time.Time
	lastSend time.Time
	sent     int       // transactions
	lag      Histogram // of requests behind their schedule
}

// openLinks connects to every URL of the target, before the clock starts.
func openLinks(ctx context.Context, c Config, plan []request, txs []transfer) ([]link, error) {
	requests, largest := make([]int, len(c.URLs)), 0
	for _, r := range plan {
		requests[r.url]++
		largest = max(largest, sizeOf(r, txs))
	}
	var links []link
	for i, raw := range c.URLs {
		u, err := parseURL(raw, targetSchemes...)
		if err != nil {
			return links, err
		}
		conns := c.Connections
		if overWS(u) {
			def(&conns, min(c.Senders, defaultWSConnections))
		} else {
			def(&conns, defaultHTTPConnections)
			conns = max(1, min(conns, requests[i]))
		}
		l, err := dial(ctx, raw, linkOptions{conns: conns, closing: c.ConnPerRequest, largest: largest, timeout: c.Timeout})
		if err != nil {
			return links, &connectError{host: hostOf(raw), err: err}
		}
		links = append(links, l)
	}
	return links, nil
}

// connectError tells which URL could not be reached, without its secrets.
type connectError struct {
	host string
	err  error
}

func (e *connectError) Error() string { return "connect to " + e.host + ": " + e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// send carries out plan and returns when every request has its answer, its time-out, or
// when ctx has ended and the answers on their way had their chance.
func send(ctx context.Context, plan []request, txs []transfer, links []link, p *progress) *load {
	p.begin("send", len(txs))
	defer p.end()
	l := &load{tally: newTally(txs, p)}
	runtime.GC() // the garbage of signing should not be collected while the clock runs

	var open sync.WaitGroup
	l.start = time.Now()
	l.lastSend = l.start
	for _, r := range plan {
		sleepUntil(ctx, l.start.Add(r.due))
		if ctx.Err() != nil {
			break
		}
		x := &exchange{body: encodeRequest(r, txs), ids: idsOf(r), lane: r.sender}
		open.Add(1)
		x.done = func(rep reply) {
			l.deliver(x, r.txs, rep)
			open.Done()
		}
		for _, i := range r.txs {
			txs[i].verdict = unanswered
		}
		links[r.url].send(ctx, x)
		l.sent += len(r.txs)
		l.lastSend = x.start
		l.lag.Record(x.start.Sub(l.start.Add(r.due)))
	}
	awaitAnswers(ctx, &open, links)
	return l
}

// awaitAnswers returns when every request is answered. After the end of ctx it waits
// the grace and then drops the connections, which answers the rest.
func awaitAnswers(ctx context.Context, open *sync.WaitGroup, links []link) {
	all := make(chan struct{})
	go func() {
		open.Wait()
		close(all)
	}()
	select {
	case <-all:
		return
	case <-ctx.Done():
	}
	grace := time.NewTimer(cancelGrace)
	defer grace.Stop()
	select {
	case <-all:
		return
	case <-grace.C:
	}
	closeLinks(links)
	<-all
}

// sleepUntil waits for an instant precisely, or for the end of ctx less so.
func sleepUntil(ctx context.Context, at time.Time) {
	const imprecision = 2 * time.Millisecond
	sleep.For(ctx, time.Until(at)-imprecision)
	for ctx.Err() == nil {
		rest := time.Until(at)
		if rest <= 0 {
			return
		}
		nap(min(rest, imprecision))
	}
}

func closeLinks(links []link) {
	for _, l := range links {
		l.close()
	}
}

func idsOf(r request) []uint64 {
	ids := make([]uint64, len(r.txs))
	for i, tx := range r.txs {
		ids[i] = uint64(tx) + 1
	}
	return ids
}

// sizeOf is no less than the message of r takes.
func sizeOf(r request, txs []transfer) int {
	size := 2
	for _, i := range r.txs {
		size += 2*len(txs[i].raw) + 90
	}
	return size
}

// encodeRequest writes the message of r: a batch if it carries several transactions.
func encodeRequest(r request, txs []transfer) []byte {
	body := make([]byte, 0, sizeOf(r, txs))
	if len(r.txs) > 1 {
		body = append(body, '[')
	}
	for n, i := range r.txs {
		if n > 0 {
			body = append(body, ',')
		}
		params := `["` + hexutil.Encode(txs[i].raw) + `"]`
		body = callBody(body, uint64(i)+1, "eth_sendRawTransaction", []byte(params))
	}
	if len(r.txs) > 1 {
		body = append(body, ']')
	}
	return body
}
