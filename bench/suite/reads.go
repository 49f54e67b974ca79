package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"lockstep/internal/sleep"
)

// readClients is how many connections ask, where a row does not say otherwise.
const readClients = 32

// readTime is how long a load runs that does not end with its keys.
const readTime = 3 * time.Second

// sample takes one load and adds its figures under a label.
func (l *lab) sample(ctx context.Context, t *table, label string, q reading) error {
	q.name = strings.ReplaceAll(strings.ReplaceAll(label, " ", "-"), ",", "")
	if q.connections == 0 {
		q.connections = readClients
	}
	r, err := l.read(ctx, q)
	if err != nil {
		return err
	}
	naive := q.relay.naive
	t.add(naive, label+", CPU of the relay", "µs/request", r.micro())
	if !naive {
		if err := l.compare(ctx, t, label, r.micro()); err != nil {
			return err
		}
	}
	if q.archive != nil {
		t.add(naive, label+", calls of the mirror node", "/request", r.mirror/r.requests)
	}
	t.add(naive, label+", answered", "requests/s", r.rate())
	if q.calls > 1 {
		t.add(naive, label+", answered calls", "/s", r.rate()*float64(q.calls))
	}
	return nil
}

// wantRead declares the figures of a sample. A bound of 0 is none.
func wantRead(t *table, label string, micro, calls float64, peerMicro, peerCalls, peerRate string) {
	bounded := func(limit float64) *bound {
		if limit == 0 {
			return nil
		}
		return atMost(limit, number(limit))
	}
	t.want(label+", CPU of the relay", "µs/request", bounded(micro), peerMicro)
	t.want(label+", calls of the mirror node", "/request", bounded(calls), peerCalls)
	t.want(label+", answered", "requests/s", nil, peerRate)
}

// readsCheap is what is answered without the mirror node.
func readsCheap(ctx context.Context, l *lab, t *table, runs int) error {
	const batch = 100
	single, many := fmt.Sprintf("eth_chainId, %d connections", readClients), fmt.Sprintf("batch of %d eth_chainId", batch)
	t.want(single+", CPU of the relay", "µs/request", nil, "175")
	t.want(single+", answered", "requests/s", nil, "6,154")
	t.want(many+", CPU of the relay", "µs/request", nil, "2,100")
	t.want(many+", answered", "requests/s", nil, "550")
	t.want(many+", answered calls", "/s", atLeast(400_000, "400,000"), "55,045")
	a, err := l.library(ctx, 1)
	if err != nil {
		return err
	}
	defer a.kill()
	ours, err := l.relay(ctx, a.network, nil)
	if err != nil {
		return err
	}
	defer ours.kill()
	echo, err := l.echo(ctx)
	if err != nil {
		return err
	}
	defer echo.kill()
	one := ask("eth_chainId")
	hundred := "[" + strings.TrimSuffix(strings.Repeat(one+",", batch), ",") + "]"
	for range runs {
		for _, r := range []*relay{ours, echo} {
			if err := l.sample(ctx, t, single, reading{relay: r, duration: readTime, body: func(int) string { return one }}); err != nil {
				return err
			}
		}
		if err := l.sample(ctx, t, many, reading{relay: ours, duration: readTime, calls: batch, body: func(int) string { return hundred }}); err != nil {
			return err
		}
	}
	t.note("The baseline is a bare net/http handler that takes in the body and answers a constant.")
	t.note("The load shares the processors with the relay: requests/s are what both together make of them.")
	return nil
}

// archiveBlocks is how many blocks there are to ask about. A relay that was asked about
// all of them is ended: the next one knows nothing.
const archiveBlocks = 1000

// readsCold asks about everything once, so that nothing is in a cache.
func readsCold(ctx context.Context, l *lab, t *table, runs int) error {
	const span = 5 // blocks of 20 logs each
	wantRead(t, "eth_getBalance", 75, 1, "785", "1", "1,513")
	wantRead(t, "eth_call", 75, 1, "741", "1", "1,492")
	wantRead(t, "eth_getTransactionReceipt", 300, 2, "4,448", "6.3", "221")
	wantRead(t, "eth_getBlockByNumber, 20 transactions in full", 1000, 3, "13,581", "25", "76")
	wantRead(t, "eth_getLogs, 100 logs", 350, 2, "3,500", "5", "240")
	a, err := l.library(ctx, archiveBlocks)
	if err != nil {
		return err
	}
	defer a.kill()
	blocks := a.blocks
	loads := []struct {
		label    string
		requests int
		body     func(i int) string
	}{
		// Neighbours in time differ, or they would be one.
		{"eth_getBalance", 20_000, func(i int) string { return ask("eth_getBalance", a.Accounts[i%len(a.Accounts)].Address, "latest") }},
		{"eth_call", 20_000, func(i int) string {
			return ask("eth_call", literal(fmt.Sprintf(`{"to":%q,"data":"0x70a08231%064x"}`, blocks.Contract, i)), "latest")
		}},
		{"eth_getTransactionReceipt", 3 * archiveBlocks, func(i int) string {
			return ask("eth_getTransactionReceipt", blocks.Transactions[i%archiveBlocks][7*(i/archiveBlocks)].Hex())
		}},
		{"eth_getBlockByNumber, 20 transactions in full", archiveBlocks, func(i int) string {
			return ask("eth_getBlockByNumber", hex(blocks.First+int64(i)), true)
		}},
		{"eth_getLogs, 100 logs", archiveBlocks - span + 1, func(i int) string {
			from := blocks.First + int64(i)
			return ask("eth_getLogs", literal(fmt.Sprintf(`{"fromBlock":%q,"toBlock":%q}`, hex(from), hex(from+span-1))))
		}},
	}
	for range runs {
		for _, q := range loads {
			relay, err := l.relay(ctx, a.network, nil)
			if err != nil {
				return err
			}
			err = l.sample(ctx, t, q.label, reading{relay: relay, archive: a, requests: q.requests, body: q.body})
			relay.kill()
			if err != nil {
				return err
			}
		}
	}
	t.note(fmt.Sprintf("%d connections; each run has a relay of its own, which has seen nothing before. The mirror node answers without delay.", readClients))
	return nil
}

// readsTip asks many times for what changes all the time, while the chain goes on.
func readsTip(ctx context.Context, l *lab, t *table, runs int) error {
	loads := []struct{ label, body, micro, rate string }{
		{"eth_blockNumber", ask("eth_blockNumber"), "730", "1,631"},
		{"eth_gasPrice", ask("eth_gasPrice"), "689", "1,729"},
		{"latest block", ask("eth_getBlockByNumber", "latest", false), "8,338", "140"},
		{"latest block, 20 transactions in full", ask("eth_getBlockByNumber", "latest", true), "13,455", "85"},
	}
	for i, q := range loads {
		bound := 20.0
		if i == len(loads)-1 {
			bound = 0
		}
		wantRead(t, q.label, bound, 0, q.micro, []string{"1", "1", "5", "24"}[i], q.rate)
	}
	a, err := l.library(ctx, 1)
	if err != nil {
		return err
	}
	defer a.kill()
	relay, err := l.relay(ctx, a.network, nil)
	if err != nil {
		return err
	}
	defer relay.kill()
	for range runs {
		for _, q := range loads {
			err := l.sample(ctx, t, q.label, reading{
				relay: relay, archive: a, duration: readTime, body: func(int) string { return q.body }, during: a.goOn,
			})
			if err != nil {
				return err
			}
		}
	}
	t.note(fmt.Sprintf("%d connections for %v; the chain has a new block of %d transactions every 2 s.", readClients, readTime, blockSize))
	return nil
}

// goOn makes a block every 2 s.
func (a *library) goOn(ctx context.Context) error {
	for {
		sleep.For(ctx, 2*time.Second)
		if ctx.Err() != nil {
			return nil
		}
		if _, err := a.add(context.WithoutCancel(ctx), 1, blockSize); err != nil {
			return err
		}
	}
}

// answers asks until there is an answer.
func answers(ctx context.Context, url string) error {
	return poll(ctx, startLimit, 200*time.Microsecond, func() error {
		var reply struct{ Result string }
		if err := request(ctx, http.MethodPost, url, ask("eth_chainId"), &reply); err != nil {
			return err
		}
		if reply.Result != "0x12a" {
			return fmt.Errorf("eth_chainId: %q", reply.Result)
		}
		return nil
	})
}
