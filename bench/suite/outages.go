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
)

// redisKilled kills Redis when 40 of 100 transactions have arrived at the node, and starts it again when the burst is over.
func redisKilled(s *scenario) {
	const count = 100
	s.want("answered", "tx", always(count), "17")
	s.want("time for all ÷ undisturbed", "×", atMost(2), "hangs until 60 s")
	s.want("last answer after the kill", "s", nil, "60")
	wantCounts(s.table, "", count, "83 hang")
	b := s.fleet(true, 0)
	ours, naive := b.start(2, false, true), b.start(1, true, true)
	for range s.runs {
		for _, r := range []*relay{ours[0], naive[0]} {
			one := load{name: "killed " + r.name, relays: []*relay{r}, state: ours[0], redis: true, senders: 1, count: count, spacing: apart}
			calm := b.fire(one)
			o, since := b.withoutRedis(one, 40)
			s.add(r.naive, "answered", "tx", float64(o.Accepted+o.Refused))
			s.add(r.naive, "time for all ÷ undisturbed", "×", o.total.Seconds()/calm.total.Seconds())
			s.add(r.naive, "last answer after the kill", "s", since.Seconds())
			o.counts(s.table, r.naive, "")
			b.redisReturns(ours)
		}
		o, _ := b.withoutRedis(load{
			name: "killed two", relays: ours, redis: true, senders: 20, count: 20, sticky: true, webSocket: true, spacing: 5 * time.Millisecond,
		}, 160)
		s.ours("two relays, wrong nonce", "tx", float64(o.Chain.WrongNonce), always(0))
		s.ours("two relays, unanswered", "tx", float64(o.Unanswered), always(0))
		b.redisReturns(ours)
	}
	s.note("With two relays 20 senders send 20 each, every sender to one of the relays over one WebSocket.")
}

// withoutRedis sends a load and kills Redis when so many have arrived. since is from the kill to the last answer.
func (b *fleet) withoutRedis(q load, arrived int) (o outcome, since time.Duration) {
	var killed time.Time
	q.during = func(ctx context.Context) error {
		_ = b.net.reached(ctx, arrived, 5*time.Second) // where fewer arrive, because of wrong nonces, it is killed at the latest now
		b.redis.Kill()
		killed = time.Now()
		return ctx.Err()
	}
	o = b.fire(q)
	return o, o.ended.Sub(killed)
}

// redisReturns starts Redis again and waits until our relays use it, without a restart.
func (b *fleet) redisReturns(ours []*relay) {
	b.launch(b.redis)
	start := time.Now()
	for _, r := range ours {
		b.ready(r.process, func() error { return r.onRedis(b.ctx) })
	}
	b.ours("Redis orders again after its return", "s", time.Since(start).Seconds())
}

// holderKilled kills the relay whose submission is at the node, while another relay has the
// same transaction and nine more of the sender.
func holderKilled(s *scenario) {
	s.want("next waiter proceeds after", "s", never(3), "30")
	s.want("executed", "tx", always(waitersBehind), "")
	b := s.fleet(true, 0)
	account := firstSender
	for run := range s.runs {
		ours := b.start(2, false, true)
		b.killHolder(ours, ours[1], account)
		if account++; run == 0 {
			b.killHolder(b.start(2, true, true), ours[1], account)
			account++
		}
	}
	s.note("The client of the killed relay has sent its transaction to the other relay too, with %d more.", waitersBehind-1)
}

// waitersBehind are queued at the relay that survives.
const waitersBehind = 10

// killHolder takes the time from the kill of relays[0] to the first submission of relays[1]. state lives.
func (b *fleet) killHolder(relays []*relay, state *relay, account int) {
	raw, hashes := b.signed(state, account, waitersBehind)
	b.net.mark()
	b.net.behave(conduct{Hold: true})
	send := func(r *relay, raw string) error {
		var hash string
		_, err := call(b.ctx, http.DefaultClient, r.url, ask("eth_sendRawTransaction", raw), &hash)
		return err
	}
	go func() { _ = send(relays[0], raw[0]) }() // its relay dies
	b.must(b.net.reached(b.ctx, 1, startLimit))
	answers := make(chan error, len(raw))
	for _, tx := range raw {
		go func() { answers <- send(relays[1], tx) }()
		b.pause(20 * time.Millisecond) // so that they arrive in this order
	}
	b.pause(300 * time.Millisecond)
	killed := time.Now()
	relays[0].Kill()
	b.must(b.net.reached(b.ctx, 2, startLimit))
	b.add(relays[1].naive, "next waiter proceeds after", "s", b.net.arrived()[1].At.Sub(killed).Seconds())
	b.net.behave(conduct{})
	for range raw {
		if err := <-answers; err != nil {
			b.count(relays[1].name+" answered: "+err.Error(), 1)
		}
	}
	done := 0
	for _, hash := range hashes {
		var receipt *struct{}
		if _, err := call(b.ctx, http.DefaultClient, state.url, ask("eth_getTransactionReceipt", hash.Hex()), &receipt); err == nil && receipt != nil {
			done++
		}
	}
	b.add(relays[1].naive, "executed", "tx", float64(done))
}

// reached waits for the n-th arrival of the run.
func (n *network) reached(ctx context.Context, count int, limit time.Duration) error {
	return proctest.Until(ctx, limit, func() error {
		if have := len(n.arrived()); have < count {
			return fmt.Errorf("%d of %d submissions are at the node", have, count)
		}
		return nil
	})
}

// signed makes consecutive transfers of an account.
func (b *fleet) signed(state *relay, account, n int) (raw []string, hashes []common.Hash) {
	if account >= len(b.net.Accounts) {
		b.must(errors.New("there are not enough accounts for so many senders"))
	}
	key, err := bench.ParseKey(b.net.Accounts[account].PrivateKey)
	b.must(err)
	to := common.HexToAddress(b.net.Accounts[funderAccount].Address)
	var price hexutil.Big
	_, err = call(b.ctx, http.DefaultClient, state.url, ask("eth_gasPrice"), &price)
	b.must(err)
	for i := range n {
		hash, text, err := sign(key, &types.DynamicFeeTx{
			Nonce: uint64(i), Gas: 21_000, GasFeeCap: new(big.Int).Mul(price.ToInt(), big.NewInt(2)), To: &to, Value: big.NewInt(1e10),
		})
		b.must(err)
		raw, hashes = append(raw, hexutil.Encode(text)), append(hashes, hash)
	}
	return raw, hashes
}
