package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/sleep"
)

const (
	defaultHTTPConnections = 1024
	defaultWSConnections   = 8 // relays allow 10, and state is asked over one more
	// cancelGrace is how long a cancelled run waits for the answers on their way: they
	// make the partial report truer.
	cancelGrace = 2 * time.Second
	// callSize is more than the call of a transfer takes.
	callSize = 1 << 10
)

// openLinks connects to every URL of the target, before the clock starts.
func openLinks(ctx context.Context, c Config, plan []request) ([]link, error) {
	requests := make([]int, len(c.URLs))
	for _, r := range plan {
		requests[r.url]++
	}
	var links []link
	for i, raw := range c.URLs {
		u, err := parseURL(raw, targetSchemes...)
		if err != nil {
			return links, err
		}
		conns := c.Connections
		switch {
		case overWS(u) && conns == 0:
			conns = min(c.Senders, defaultWSConnections)
		case !overWS(u) && conns == 0:
			conns = max(1, min(defaultHTTPConnections, requests[i]))
		case !overWS(u):
			conns = max(1, min(conns, requests[i]))
		}
		l, err := dial(ctx, raw, linkOptions{conns: conns, largest: callSize, timeout: c.Timeout})
		if err != nil {
			return links, fmt.Errorf("connect to %s: %w", hostOf(raw), err)
		}
		links = append(links, l)
	}
	return links, nil
}

// send carries out plan and returns when every request has its answer, its time-out, or
// when ctx has ended and the answers on their way had their chance.
func (r *run) send(ctx context.Context, plan []request, links []link) {
	r.tell("sending %d transactions", r.report.Planned)
	runtime.GC() // the garbage of signing should not be collected while the clock runs

	var open sync.WaitGroup
	var lag Histogram
	start := time.Now()
	last, sent := start, 0
	for _, q := range plan {
		sleepUntil(ctx, start.Add(q.due))
		if ctx.Err() != nil {
			break
		}
		t := &r.txs[q.tx]
		id := uint64(q.tx) + 1
		x := &exchange{
			id: id, lane: q.sender,
			body: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"eth_sendRawTransaction","params":["0x%x"]}`, id, t.raw),
		}
		open.Add(1)
		x.done = func(rep reply) {
			t.answer(rep)
			t.took = rep.at.Sub(x.start)
			open.Done()
		}
		t.verdict = unanswered
		links[q.url].send(ctx, x)
		sent, last = sent+1, x.start
		lag.Record(x.start.Sub(start.Add(q.due)))
	}
	awaitAnswers(ctx, &open, links)
	r.report.count(r.txs, start)
	r.report.Sent, r.report.Lag, r.report.Partial = sent, &lag, sent < len(plan)
	r.report.OfferedTPS = rate(sent-1, last.Sub(start))
}

// answer judges what a target said of a transaction.
func (t *transfer) answer(rep reply) {
	t.at = rep.at
	var hash common.Hash
	switch {
	case rep.err != nil:
		t.class.message = transportClass(rep.err)
	case rep.Error != nil:
		t.verdict, t.class = refused, classKey{rep.Error.Code, normalise(rep.Error.Message)}
	case hash.UnmarshalJSON(rep.Result) != nil || hash != t.hash:
		t.class.message = "answered with something else than the hash"
	default:
		t.verdict = accepted
	}
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
