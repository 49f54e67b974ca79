package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/bench/naive"
	"lockstep/internal/envx"
	"lockstep/internal/sleep"
	"lockstep/lock"
)

// commandsPerTransaction counts what the server executes for each of n transactions that
// wait, each entered by itself and alternating between two members: the dearest case.
func commandsPerTransaction(ctx context.Context, l *lab, t *table, runs int) error {
	const naiveMost = 100
	waiters := []int{1, 10, 100, 1000}
	for _, gap := range []string{"", ", hold-back window on"} {
		for _, n := range waiters {
			t.want(executed(n, gap), "", never(16, "16"), map[bool]string{true: "96–220"}[n >= 20 && gap == ""])
			t.want(sent(n, gap), "", never(3, "3"), "")
		}
	}
	server, err := l.redis(ctx)
	if err != nil {
		return err
	}
	defer server.close()
	for range runs {
		for _, gap := range []string{"", ", hold-back window on"} {
			if err := countRow(ctx, server, t, waiters, gap); err != nil {
				return err
			}
		}
		for _, n := range waiters {
			if n > naiveMost {
				continue
			}
			if err := countNaive(ctx, server, t, n); err != nil {
				return err
			}
		}
	}
	t.note(fmt.Sprintf("The baseline is left out above %d waiters: each of them polls every %v.", naiveMost, naive.PollInterval))
	return nil
}

func executed(n int, gap string) string { return fmt.Sprintf("executed, %d waiting%s", n, gap) }
func sent(n int, gap string) string     { return fmt.Sprintf("sent by the client, %d waiting%s", n, gap) }

// newSender is one of whom nobody remembers a nonce.
func newSender() (a common.Address) {
	for i := range a {
		a[i] = byte(rand.N(256))
	}
	return a
}

func countRow(ctx context.Context, server *redisServer, t *table, waiters []int, gap string) error {
	cfg := quiet()
	if gap != "" {
		cfg.Window = envx.Millis(time.Minute)
	}
	for _, n := range waiters {
		all, client, err := countOne(ctx, server, cfg, newSender(), n)
		if err != nil {
			return err
		}
		t.ours(executed(n, gap), "", all)
		t.ours(sent(n, gap), "", client)
	}
	return nil
}

// countOne counts the commands for each of n that wait: n joins and n releases. The
// members are new ones: without heartbeats they trust what they are told for some seconds.
func countOne(ctx context.Context, server *redisServer, cfg lock.Config, sender common.Address, n int) (all, client float64, err error) {
	var members []*member
	for range 2 {
		m, err := join(ctx, server, cfg)
		if err != nil {
			return 0, 0, err
		}
		defer m.leave()
		members = append(members, m)
	}
	first, err := members[0].svc.Enter(sender, 0)
	if err != nil {
		return 0, 0, err
	}
	first.Observe(0)
	holder, err := first.Wait(ctx)
	if err != nil {
		return 0, 0, err
	}
	accept(holder, 0, lock.Submission{})
	c := &count{server: server, members: members}
	if err := c.begin(ctx); err != nil {
		return 0, 0, err
	}
	tickets := make([]*lock.Ticket, n)
	for i := range tickets {
		if tickets[i], err = members[(i+1)%2].svc.Enter(sender, uint64(i)+1); err != nil {
			return 0, 0, err
		}
		if err := placed(ctx, server, sender, int64(i)+1); err != nil {
			return 0, 0, err
		}
	}
	if err := c.until(ctx, n); err != nil {
		return 0, 0, err
	}
	all, client = c.all, c.sent
	// The release of the first belongs to another transaction.
	holder.Release()
	if err := c.until(ctx, n+1); err != nil {
		return 0, 0, err
	}
	all, client = all-c.all, client-c.sent
	for i, ticket := range tickets {
		lease, err := ticket.Wait(ctx)
		if err != nil {
			return 0, 0, err
		}
		accept(lease, uint64(i)+1, lock.Submission{Node: "0.0.3", TxID: "0.0.2@1.1"})
		lease.Release()
	}
	if err := c.until(ctx, 2*n+1); err != nil {
		return 0, 0, err
	}
	return (all + c.all) / float64(n), (client + c.sent) / float64(n), nil
}

// count is how many commands there were since begin.
type count struct {
	server    *redisServer
	members   []*member
	before    int64
	all, sent float64
}

func (c *count) begin(ctx context.Context) error {
	sleep.For(ctx, 50*time.Millisecond) // for what the members still have to say
	c.before = trips(c.members)
	return c.server.reset(ctx)
}

// until waits until the members have had at least n answers, and then counts.
func (c *count) until(ctx context.Context, n int) (err error) {
	err = poll(ctx, startLimit, time.Millisecond, func() error {
		if have := trips(c.members) - c.before; have < int64(n) {
			return fmt.Errorf("%d of %d answers", have, n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.sent = float64(trips(c.members) - c.before)
	c.all, err = c.server.commands(ctx)
	return err
}

func trips(members []*member) (total int64) {
	for _, m := range members {
		total += m.sent.commands.Load()
	}
	return total
}

// countNaive is countOne for the baseline.
func countNaive(ctx context.Context, server *redisServer, t *table, n int) error {
	lock, done, err := naiveLock(server)
	if err != nil {
		return err
	}
	defer done()
	if err := server.reset(ctx); err != nil {
		return err
	}
	release, err := lock.Acquire(ctx, alice)
	if err != nil {
		return err
	}
	ended := make(chan error, n)
	for i := range n {
		go func() {
			release, err := lock.Acquire(ctx, alice)
			if err == nil {
				release()
			}
			ended <- err
		}()
		if err := queued(ctx, server, int64(i)+1); err != nil {
			return err
		}
	}
	release()
	var errs []error
	for range n {
		errs = append(errs, <-ended)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	all, err := server.commands(ctx)
	t.naive(executed(n, ""), "", all/float64(n+1))
	return err
}

// accept reports that a node has the holder's transaction, which was next.
func accept(lease *lock.Lease, nonce uint64, sub lock.Submission) {
	lease.Next(lock.Known{Shown: nonce, Looked: true, Fresh: true, Fleet: true})
	lease.Report(lock.Report{Outcome: lock.Accepted, Submission: sub})
}
