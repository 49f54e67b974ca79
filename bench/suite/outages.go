package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/bench"
	"lockstep/internal/proctest"
	"lockstep/internal/sleep"
)

// redisKilled kills Redis when 40 of 100 transactions have arrived at the node, and starts it again when the burst is over.
func redisKilled(ctx context.Context, l *lab, t *table, runs int) error {
	const count = 100
	t.want("answered", "tx", always(count), "17")
	t.want("time for all ÷ undisturbed", "×", atMost(2), "hangs until 60 s")
	t.want("last answer after the kill", "s", nil, "60")
	wantCounts(t, "", count, "83 hang")
	t.want("two relays, wrong nonce", "tx", always(0), "")
	t.want("two relays, unanswered", "tx", always(0), "")
	b, err := l.fleet(ctx, true)
	if err != nil {
		return err
	}
	defer b.close()
	ours, err := b.start(ctx, 2, false, b.redis)
	if err != nil {
		return err
	}
	naive, err := b.start(ctx, 1, true, b.redis)
	if err != nil {
		return err
	}
	for range runs {
		for _, r := range []*relay{ours[0], naive[0]} {
			one := load{name: "killed " + r.name, relays: []*relay{r}, state: ours[0], redis: b.redis, senders: 1, count: count, spacing: apart}
			calm, err := b.fire(ctx, one)
			if err != nil {
				return err
			}
			o, since, err := b.withoutRedis(ctx, one, 40)
			if err != nil {
				return err
			}
			t.add(r.naive, "answered", "tx", float64(o.Accepted+o.Refused))
			t.add(r.naive, "time for all ÷ undisturbed", "×", o.total.Seconds()/calm.total.Seconds())
			t.add(r.naive, "last answer after the kill", "s", since.Seconds())
			o.counts(t, r.naive, "")
			if err := b.redisReturns(ctx, t, ours); err != nil {
				return err
			}
		}
		o, _, err := b.withoutRedis(ctx, load{
			name: "killed two", relays: ours, redis: b.redis, senders: 20, count: 20, sticky: true, webSocket: true, spacing: 5 * time.Millisecond,
		}, 160)
		if err != nil {
			return err
		}
		t.ours("two relays, wrong nonce", "tx", float64(o.Chain.WrongNonce))
		t.ours("two relays, unanswered", "tx", float64(o.Unanswered))
		if err := b.redisReturns(ctx, t, ours); err != nil {
			return err
		}
	}
	t.note("With two relays 20 senders send 20 each, every sender to one of the relays over one WebSocket.")
	return nil
}

// withoutRedis sends a load and kills Redis when so many have arrived. since is from the kill to the last answer.
func (b *fleet) withoutRedis(ctx context.Context, q load, arrived int) (o outcome, since time.Duration, err error) {
	var killed time.Time
	q.during = func(ctx context.Context) error {
		_ = b.atNode(ctx, arrived, 5*time.Second, nil) // where fewer arrive, because of wrong nonces, it is killed at the latest now
		b.redis.Kill()
		killed = time.Now()
		return ctx.Err()
	}
	var last time.Time
	q.ended = func() { last = time.Now() }
	o, err = b.fire(ctx, q)
	return o, last.Sub(killed), err
}

// redisReturns starts Redis again and waits until our relays use it, without a restart.
func (b *fleet) redisReturns(ctx context.Context, t *table, ours []*relay) error {
	if err := b.redis.launch(ctx); err != nil {
		return err
	}
	start := time.Now()
	for _, r := range ours {
		if err := r.up(ctx, func() error { return r.onRedis(ctx) }); err != nil {
			return err
		}
	}
	t.ours("Redis orders again after its return", "s", time.Since(start).Seconds())
	return nil
}

// holderKilled kills the relay whose submission is at the node, while another relay has the
// same transaction and nine more of the sender.
func holderKilled(ctx context.Context, l *lab, t *table, runs int) error {
	t.want("next waiter proceeds after", "s", never(3), "30")
	t.want("executed", "tx", always(waitersBehind), "")
	b, err := l.fleet(ctx, true)
	if err != nil {
		return err
	}
	defer b.close()
	account := firstSender
	for run := range runs {
		var state *relay // of ours, which lives
		for _, naive := range []bool{false, true} {
			if naive && run > 0 {
				continue
			}
			relays, err := b.start(ctx, 2, naive, b.redis)
			if err != nil {
				return err
			}
			if !naive {
				state = relays[1]
			}
			if err := b.killHolder(ctx, t, relays, state, account); err != nil {
				return err
			}
			account++
		}
	}
	t.note("The client of the killed relay has sent its transaction to the other relay too, with %d more.", waitersBehind-1)
	return nil
}

// waitersBehind are queued at the relay that survives.
const waitersBehind = 10

// killHolder takes the time from the kill of relays[0] to the first submission of relays[1].
func (b *fleet) killHolder(ctx context.Context, t *table, relays []*relay, state *relay, account int) error {
	raw, hashes, err := b.signed(ctx, state, account, waitersBehind)
	if err != nil {
		return err
	}
	if err := errors.Join(b.net.mark(ctx), b.net.behave(ctx, conduct{Hold: true})); err != nil {
		return err
	}
	send := func(r *relay, raw string) error {
		var hash string
		_, err := call(ctx, http.DefaultClient, r.url, ask("eth_sendRawTransaction", raw), &hash)
		return err
	}
	go func() { _ = send(relays[0], raw[0]) }() // its relay dies
	if err := b.atNode(ctx, 1, startLimit, nil); err != nil {
		return err
	}
	answers := make(chan error, len(raw))
	for _, tx := range raw {
		go func() { answers <- send(relays[1], tx) }()
		sleep.For(ctx, 20*time.Millisecond) // so that they arrive in this order
	}
	sleep.For(ctx, 300*time.Millisecond)
	killed := time.Now()
	relays[0].Kill()
	var next arrival
	if err := b.atNode(ctx, 2, startLimit, &next); err != nil {
		return err
	}
	t.add(relays[1].naive, "next waiter proceeds after", "s", float64(next.At-killed.UnixNano())/1e9)
	if err := b.net.behave(ctx, conduct{}); err != nil {
		return err
	}
	for range raw {
		if err := <-answers; err != nil {
			t.count(relays[1].name+" answered: "+err.Error(), 1)
		}
	}
	done := 0
	for _, hash := range hashes {
		var receipt *struct{}
		if _, err := call(ctx, http.DefaultClient, state.url, ask("eth_getTransactionReceipt", hash.Hex()), &receipt); err == nil && receipt != nil {
			done++
		}
	}
	t.add(relays[1].naive, "executed", "tx", float64(done))
	return nil
}

// atNode waits for the n-th arrival of the run.
func (b *fleet) atNode(ctx context.Context, n int, limit time.Duration, into *arrival) error {
	return proctest.Until(ctx, limit, func() error {
		list, err := b.net.arrivals(ctx)
		switch {
		case err != nil:
		case len(list) < n:
			err = fmt.Errorf("%d of %d submissions are at the node", len(list), n)
		case into != nil:
			*into = list[n-1]
		}
		return err
	})
}

// signed makes consecutive transfers of an account.
func (b *fleet) signed(ctx context.Context, state *relay, account, n int) (raw []string, hashes []common.Hash, err error) {
	if account >= len(b.net.Accounts) {
		return nil, nil, errors.New("there are not enough accounts for so many senders")
	}
	key, err := bench.ParseKey(b.net.Accounts[account].PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	to := common.HexToAddress(b.net.Accounts[funderAccount].Address)
	var price hexutil.Big
	if _, err := call(ctx, http.DefaultClient, state.url, ask("eth_gasPrice"), &price); err != nil {
		return nil, nil, err
	}
	for i := range n {
		hash, text, err := sign(key, &types.DynamicFeeTx{
			Nonce: uint64(i), Gas: 21_000, GasFeeCap: new(big.Int).Mul(price.ToInt(), big.NewInt(2)), To: &to, Value: big.NewInt(1e10),
		})
		if err != nil {
			return nil, nil, err
		}
		raw, hashes = append(raw, hexutil.Encode(text)), append(hashes, hash)
	}
	return raw, hashes, nil
}
