package ledger

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"

	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/must"
)

// Tools move the clock of blocks that are so many seconds apart, too: the next one begins there.
func TestBlocksApartFollowTheClock(t *testing.T) {
	for name, cfg := range map[string]Config{"as a tool says": {}, "deterministic": {Deterministic: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, cfg)
				r.SetApart(10)
				newest := func() int64 {
					r.Mine(1, 0)
					return r.View().LatestBlock().From.Seconds
				}
				start := newest()
				r.IncreaseTime(time.Hour)
				r.IncreaseTime(time.Hour)
				if got := newest() - start; got != 7200 {
					t.Errorf("two hours later it is %d s later", got)
				}
				r.SetTime(time.Unix(start+50_000, 0))
				if got := newest() - start; got != 50_000 {
					t.Errorf("set to 50,000 s later it is %d s later", got)
				}
				if got := newest() - start; got != 50_010 {
					t.Errorf("and 10 s after that %d s later", got)
				}
				r.SetTime(time.Unix(start, 0))
				if got := newest() - start; got != 50_020 {
					t.Errorf("the clock goes back by %d s", 50_020-got)
				}
			})
		})
	}
}

// Blocks that come faster than seconds have a second each, and an estimate is for the block that will be,
// however the clock is set.
func TestBlocksHaveRisingTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name  string
			cfg   Config
			apart int64
		}{{"default", Config{}, 0}, {"deterministic", Config{Deterministic: true}, 0}, {"interval", Config{}, 7}} {
			r := newRig(t, tt.cfg)
			r.SetApart(max(tt.apart, r.pace.apart))
			from := dev(t, 0)
			stamp := r.deploy(from, 0, returnTop(program.New().Op(vm.TIMESTAMP)))
			for nonce := range uint64(5) {
				before := r.View().LatestBlock().From.Seconds
				_, run, err := r.View().Estimate(t.Context(), evm.CallRequest{From: &from.address, To: &stamp})
				if err != nil {
					t.Fatal(err)
				}
				r.want(r.ethereum(from, dynamic(nonce+1, &stamp, 0, 100_000, nil)), okay)
				at := r.View().LatestBlock().From.Seconds
				if at != before+max(tt.apart, 1) {
					t.Errorf("%s: block %d is %d s after the one before", tt.name, nonce, at-before)
				}
				if estimated := new(big.Int).SetBytes(run.Output).Int64(); estimated != at {
					t.Errorf("%s: the estimate was for a block at %d, which is at %d", tt.name, estimated, at)
				}
			}
		}
	})
}

// Where nothing happens for longer than blocks have hurried the clock by, it is the machine's again.
func TestClockRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		r.Mine(30, 0)
		if ahead := time.Until(r.Now()); ahead < 29*time.Second {
			t.Errorf("ahead by %s", ahead)
		}
		pass(2 * time.Minute)
		r.Mine(1, 0)
		if ahead := time.Until(r.Now()); ahead != 0 {
			t.Errorf("ahead by %s after a rest", ahead)
		}
	})
}

// Tools move the clock, and give the next block its time.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		from := dev(t, 0)
		stamp := r.deploy(from, 0, returnTop(program.New().Op(vm.TIMESTAMP)))
		pass(2 * time.Minute) // the clock goes back to the machine's
		start := time.Now().Unix()
		nonce := uint64(1)
		shown := func() int64 {
			t.Helper()
			rec := r.ethereum(from, dynamic(nonce, &stamp, 0, 100_000, nil))
			nonce++
			r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
			got := new(big.Int).SetBytes(rec.Result.Output).Int64()
			if block := r.View().LatestBlock().From.Seconds; block != got {
				t.Errorf("the EVM shows %d, and its block is of %d", got, block)
			}
			return got
		}
		if got := shown(); got != start {
			t.Errorf("at first %d, want %d", got, start)
		}
		if ahead := r.IncreaseTime(time.Hour); ahead != time.Hour {
			t.Errorf("ahead by %s", ahead)
		}
		if got := shown(); got != start+3600 {
			t.Errorf("after an hour %d, want %d", got, start+3600)
		}
		must.Do(t, r.SetNextTime(start+10_000))
		if _, run, err := r.View().Estimate(t.Context(), evm.CallRequest{From: &from.address, To: &stamp}); err != nil || new(big.Int).SetBytes(run.Output).Int64() != start+10_000 {
			t.Errorf("an estimate is for %x: %v", run.Output, err)
		}
		if got := shown(); got != start+10_000 {
			t.Errorf("set to %d, want %d", got, start+10_000)
		}
		pass(5 * time.Second)
		if got := shown(); got != start+10_005 {
			t.Errorf("5 s later %d, want %d", got, start+10_005)
		}
		if err := r.SetNextTime(start); !errors.Is(err, ErrTimeBack) {
			t.Errorf("the past: %v", err)
		}
		if err := r.SetNextTime(LastSecond + 1); !errors.Is(err, ErrTimeFar) {
			t.Errorf("after the end of the clock: %v", err)
		}
		snapshot, spent := r.Snapshot(), nonce
		r.Mine(3, 60)
		if got := r.View().LatestBlock().From.Seconds; got != start+10_006+120 {
			t.Errorf("three blocks a minute apart end at %d", got)
		}
		r.MineApart(2, 86_400)
		if got := r.View().LatestBlock().From.Seconds; got != start+10_006+120+2*86_400 {
			t.Errorf("two blocks, each a day after the one before, end at %d", got)
		}
		r.SetTime(time.Unix(start+50_000, 0))
		pass(7 * time.Second)
		if !r.Revert(snapshot) {
			t.Fatal("not reverted")
		}
		nonce = spent
		if got := shown(); got != start+10_006 {
			t.Errorf("after the snapshot's block %d, want %d", got, start+10_006)
		}
	})
}

// No tool moves the clock beyond its end, where blocks would have times of long ago.
func TestClockEnds(t *testing.T) {
	for name, move := range map[string]func(*rig){
		"increase": func(r *rig) {
			for range 3 {
				r.IncreaseTime(math.MaxInt64)
			}
			r.Mine(2, 0)
		},
		"mine": func(r *rig) { r.Mine(3, 1<<33-1) },
		"apart": func(r *rig) {
			r.SetApart(1<<33 - 1)
			r.Mine(3, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			move(r)
			newest := r.View().LatestBlock()
			if s := newest.From.Seconds; s < LastSecond || s > LastSecond+2 {
				t.Errorf("the newest block is of %d", s)
			}
		})
	}
}

// Blocks end when they are told to, by time, or with each transaction.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		must.Run(t, r.Run)
		from, to := dev(t, 0), dev(t, 1).address
		head := func() int64 { return r.View().LatestBlock().Number }
		want := func(what string, number int64) {
			t.Helper()
			synctest.Wait()
			if head() != number {
				t.Errorf("%s: block %d, want %d", what, head(), number)
			}
		}
		pass(time.Hour)
		want("at first", 0)
		r.SetAutomine(false)
		for n := range uint64(3) {
			r.want(r.ethereum(from, dynamic(n, &to, 0, 100_000, nil)), hapi.ResponseCodeEnum_SUCCESS)
		}
		pass(time.Hour)
		want("without mining", 0)
		r.Mine(2, 0)
		want("mined", 2)
		if b, _ := r.View().BlockByNumber(1); len(b.Records) != 3 {
			t.Errorf("%d records in the first block", len(b.Records))
		}
		r.SetInterval(10 * time.Second)
		pass(35 * time.Second)
		want("by time", 5)
		r.SetInterval(0)
		pass(time.Hour)
		want("no more", 5)
		r.SetAutomine(true)
		r.ethereum(from, dynamic(3, &to, 0, 100_000, nil))
		want("with a transaction", 6)
	})
}

// Reset leaves nothing but genesis.
func TestReset(t *testing.T) {
	r := newRig(t, Config{})
	from, to := dev(t, 0), dev(t, 1).address
	before, snapshot := r.Generation(), r.Snapshot()
	r.want(r.ethereum(from, dynamic(0, &to, 5, 100_000, nil)), hapi.ResponseCodeEnum_SUCCESS)
	r.IncreaseTime(time.Hour)
	must.Do(t, r.Reset())
	if after := r.Generation(); after.Number <= before.Number || after.Block != 0 {
		t.Errorf("generation %+v after %+v", after, before)
	}
	if a, _ := r.View().AccountByAddress(from.address); a.Nonce != 0 || a.Balance != devaccounts.RichBalance || r.View().LatestBlock().Number != 0 {
		t.Errorf("%+v in block %d", a, r.View().LatestBlock().Number)
	}
	if ahead := time.Until(r.Now()); ahead > time.Minute {
		t.Errorf("the clock is ahead by %s", ahead)
	}
	if r.Revert(snapshot) {
		t.Error("went back to a moment of a chain that is gone")
	}
	r.want(r.ethereum(from, dynamic(0, &to, 5, 100_000, nil)), hapi.ResponseCodeEnum_SUCCESS)
}

// Whom nobody has a key of sends all the same, contracts too; nothing else is made up.
func TestImpersonation(t *testing.T) {
	r := newRig(t, Config{})
	owner, to := dev(t, 0), dev(t, 1).address
	contract := r.deploy(owner, 0, returnTop(program.New().Op(vm.CALLER)))
	balance := devaccounts.RichBalance
	must.Do(t, r.Edit(Edit{Address: contract, Balance: &balance}))
	send := func(from common.Address, nonce uint64) *history.Record {
		t.Helper()
		return must.Get(r.Impersonate(types.NewTx(dynamic(nonce, &to, 3, 100_000, nil)), from))(t)
	}
	for _, from := range []common.Address{contract, dev(t, 2).address} {
		account, _ := r.View().AccountByAddress(from)
		rec := send(from, uint64(account.Nonce))
		r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
		after, _ := r.View().AccountByAddress(from)
		if after.Nonce != account.Nonce+1 || after.Balance != account.Balance-3-rec.Fee || rec.Result.Sender != from {
			t.Errorf("%+v, before %+v", after, account)
		}
		if found := r.View().RecordsByEthereumHash(rec.EthereumHash); len(found) != 1 || found[0] != rec {
			t.Errorf("found %v", found)
		}
	}
	r.want(send(dev(t, 3).address, 7), hapi.ResponseCodeEnum_WRONG_NONCE)
	r.want(send(common.HexToAddress("0xabcdef0000000000000000000000000000000001"), 0), hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID)
	// With its key an account has to sign, and so has a contract, which has none.
	tx := types.NewTx(dynamic(0, &to, 3, 100_000, nil))
	if a, b := send(dev(t, 4).address, 0), send(dev(t, 5).address, 0); a.EthereumHash == b.EthereumHash || a.EthereumHash == tx.Hash() {
		t.Error("the hash does not tell the senders apart")
	}
	if total, _ := r.View().Supply(); total != state.TotalSupply {
		t.Errorf("%d tinybar exist", total)
	}
}

// pass lets time pass in a bubble of synctest.
func pass(d time.Duration) { <-time.After(d) }
