package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/bench"
	"lockstep/internal/sleep"
)

// redisKilled kills Redis when 40 of 100 transactions have arrived at the node, and starts
// it again when the burst is over.
func redisKilled(ctx context.Context, l *lab, t *table, runs int) error {
	const count = 100
	t.want("answered", "tx", always(count, "100 in every run"), "17")
	t.want("time for all ÷ undisturbed", "×", atMost(2, "2"), "hangs until 60 s")
	t.want("last answer after the kill", "s", nil, "60")
	wantCounts(t, "", count, "83 hang")
	t.want("two relays, wrong nonce", "tx", always(0, "0 in every run"), "")
	t.want("two relays, unanswered", "tx", always(0, "0 in every run"), "")
	t.want("Redis orders again after its return", "s", nil, "")
	t.want("Redis commands after its return", "/tx", nil, "")
	b, err := l.bed(ctx, true)
	if err != nil {
		return err
	}
	defer b.close()
	ours, err := pair(func() (*relay, error) { return b.relay(ctx, b.redis) })
	if err != nil {
		return err
	}
	naive, err := b.naive(ctx, b.redis)
	if err != nil {
		return err
	}
	one := func(r *relay) load {
		return load{name: "killed " + r.name, relays: []*relay{r}, state: ours[0], senders: 1, count: count, spacing: apart, conduct: usual()}
	}
	for range runs {
		for _, r := range []*relay{ours[0], naive} {
			calm, err := l.fire(ctx, b.net, b.redis, one(r))
			if err != nil {
				return err
			}
			o, since, err := b.withoutRedis(ctx, one(r), 40)
			if err != nil {
				return err
			}
			t.add(r.naive, "answered", "tx", float64(o.Accepted+o.Refused))
			t.add(r.naive, "time for all ÷ undisturbed", "×", o.total.Seconds()/calm.total.Seconds())
			t.add(r.naive, "last answer after the kill", "s", since.Seconds())
			o.failures(t, r.naive, "")
			if err := b.redisReturns(ctx, t, ours); err != nil {
				return err
			}
		}
		o, _, err := b.withoutRedis(ctx, load{
			name: "killed two", relays: ours, senders: 20, count: 20, sticky: true, webSocket: true,
			spacing: 5 * time.Millisecond, conduct: usual(),
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

// withoutRedis sends a load and kills Redis when so many have arrived. since is from the
// kill to the last answer.
func (b *bed) withoutRedis(ctx context.Context, q load, arrived int) (o outcome, since time.Duration, err error) {
	var killed time.Duration
	began := time.Now()
	q.during = func(ctx context.Context) error {
		began = time.Now()
		// Where fewer arrive, because of wrong nonces, it is killed at the latest now.
		late := time.Now().Add(5 * time.Second)
		err := poll(ctx, startLimit, 5*time.Millisecond, func() error {
			list, err := b.net.arrivals(ctx)
			if err == nil && len(list) < arrived && time.Now().Before(late) {
				err = fmt.Errorf("%d of %d have arrived", len(list), arrived)
			}
			return err
		})
		b.redis.kill()
		killed = time.Since(began)
		return err
	}
	o, err = b.lab.fire(ctx, b.net, b.redis, q)
	return o, o.total - killed, err
}

// redisReturns starts Redis again and waits until our relays use it, without a restart.
func (b *bed) redisReturns(ctx context.Context, t *table, ours []*relay) error {
	if err := b.redis.launch(ctx); err != nil {
		return err
	}
	start := time.Now()
	for _, r := range ours {
		if err := r.onRedis(ctx, startLimit); err != nil {
			return err
		}
	}
	t.ours("Redis orders again after its return", "s", time.Since(start).Seconds())
	o, err := b.lab.fire(ctx, b.net, b.redis, load{
		name: "returned", relays: ours[:1], senders: 1, count: 20, spacing: apart, conduct: usual(),
	})
	if err != nil {
		return err
	}
	t.ours("Redis commands after its return", "/tx", o.perTransaction(o.commands))
	return nil
}

// holderKilled kills the relay whose submission is at the node, while another relay has the
// same transaction and nine more of the sender.
func holderKilled(ctx context.Context, l *lab, t *table, runs int) error {
	const naiveRuns = 1
	t.want("next waiter proceeds after", "s", never(3, "3"), "30")
	t.want("executed", "tx", always(waitersBehind, fmt.Sprintf("%d in every run", waitersBehind)), "")
	b, err := l.bed(ctx, true)
	if err != nil {
		return err
	}
	defer b.close()
	for i := range runs {
		ours, err := pair(func() (*relay, error) { return b.relay(ctx, b.redis) })
		if err != nil {
			return err
		}
		if err := b.killHolder(ctx, t, ours, ours[1], firstSender+i); err != nil {
			return err
		}
		if i < naiveRuns {
			naive, err := pair(func() (*relay, error) { return b.naive(ctx, b.redis) })
			if err != nil {
				return err
			}
			if err := b.killHolder(ctx, t, naive, ours[1], firstSender+runs+i); err != nil {
				return err
			}
		}
	}
	t.note(fmt.Sprintf("The client of the killed relay has sent its transaction to the other relay too, with %d more.", waitersBehind-1))
	return nil
}

// waitersBehind are queued at the relay that survives.
const waitersBehind = 10

// killHolder takes the time from the kill of relays[0] to the first submission of relays[1].
func (b *bed) killHolder(ctx context.Context, t *table, relays []*relay, state *relay, account int) error {
	if account >= len(b.net.Accounts) {
		return errors.New("there are not enough accounts for so many runs")
	}
	raw, hashes, err := b.signed(ctx, state, b.net.Accounts[account].PrivateKey, waitersBehind)
	if err != nil {
		return err
	}
	if err := errors.Join(b.net.mark(ctx), b.net.behave(ctx, conduct{Hold: true})); err != nil {
		return err
	}
	go func() { _, _ = call(ctx, relays[0].url, "eth_sendRawTransaction", raw[0]) }() // its relay dies
	if _, err := b.atNode(ctx, 1); err != nil {
		return err
	}
	answers := make(chan error, len(raw))
	for _, tx := range raw {
		go func() {
			_, err := call(ctx, relays[1].url, "eth_sendRawTransaction", tx)
			answers <- err
		}()
		sleep.For(ctx, 20*time.Millisecond) // so that they arrive in this order
	}
	sleep.For(ctx, 300*time.Millisecond)
	killed := time.Now()
	relays[0].kill()
	next, err := b.atNode(ctx, 2)
	if err != nil {
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
		receipt, err := call(ctx, state.url, "eth_getTransactionReceipt", hash.Hex())
		if err == nil && string(receipt) != "null" {
			done++
		}
	}
	t.add(relays[1].naive, "executed", "tx", float64(done))
	return nil
}

// atNode waits for the n-th arrival of the run.
func (b *bed) atNode(ctx context.Context, n int) (arrival, error) {
	var list []arrival
	err := poll(ctx, 45*time.Second, 10*time.Millisecond, func() (err error) {
		list, err = b.net.arrivals(ctx)
		if err == nil && len(list) < n {
			err = fmt.Errorf("%d of %d submissions are at the node", len(list), n)
		}
		return err
	})
	if err != nil {
		return arrival{}, err
	}
	return list[n-1], nil
}

// signed makes consecutive transfers of an account to itself.
func (b *bed) signed(ctx context.Context, state *relay, private string, n int) (raw []string, hashes []common.Hash, err error) {
	key, err := bench.ParseKey(private)
	if err != nil {
		return nil, nil, err
	}
	chain := big.NewInt(298)
	signer := types.LatestSignerForChainID(chain)
	to := common.HexToAddress(b.net.Accounts[funderAccount].Address)
	price, err := call(ctx, state.url, "eth_gasPrice")
	if err != nil {
		return nil, nil, err
	}
	var paid hexutil.Big
	if err := json.Unmarshal(price, &paid); err != nil {
		return nil, nil, err
	}
	for i := range n {
		tx, err := types.SignNewTx(key, signer, &types.DynamicFeeTx{
			ChainID: chain, Nonce: uint64(i), Gas: 21_000, GasFeeCap: new(big.Int).Mul(paid.ToInt(), big.NewInt(2)), To: &to, Value: big.NewInt(1e10),
		})
		if err != nil {
			return nil, nil, err
		}
		text, err := tx.MarshalBinary()
		if err != nil {
			return nil, nil, err
		}
		raw, hashes = append(raw, hexutil.Encode(text)), append(hashes, tx.Hash())
	}
	return raw, hashes, nil
}

// call makes one JSON-RPC call.
func call(ctx context.Context, url, method string, params ...string) (json.RawMessage, error) {
	if params == nil {
		params = []string{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := request(ctx, http.MethodPost, url, string(body), &answer); err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, errors.New(answer.Error.Message)
	}
	return answer.Result, nil
}
