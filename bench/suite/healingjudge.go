package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/sleep"
)

// decision is one transaction as consensus saw it.
type decision struct {
	Sender common.Address `json:"sender"`
	Nonce  uint64         `json:"nonce"`
	Hash   common.Hash    `json:"hash"`
	Status string         `json:"status"`
}

// decisions are the network's log, as far as it was read.
type decisions struct {
	net     *network
	next    int64
	entries []decision
}

// read reads what is new.
func (d *decisions) read(ctx context.Context) error {
	for {
		var page struct {
			Entries []decision `json:"entries"`
			Next    int64      `json:"next"`
		}
		if err := request(ctx, http.MethodGet, fmt.Sprintf("%s/devnet/consensus?since=%d", d.net.URL, d.next), "", &page); err != nil {
			return err
		}
		d.next = page.Next
		d.entries = append(d.entries, page.Entries...)
		if len(page.Entries) == 0 {
			return nil
		}
	}
}

// settleLimit bounds how long a run may take after its last answer.
const settleLimit = 5 * time.Minute

// settle waits until everything was executed and half a second passed, or nothing has happened for
// the given time; it returns when the last thing happened.
func (d *decisions) settle(ctx context.Context, all int, quiet time.Duration) (last time.Time, err error) {
	last = time.Now()
	for limit := last.Add(settleLimit); time.Now().Before(limit) && ctx.Err() == nil; {
		before := len(d.entries)
		if err := d.read(ctx); err != nil {
			return last, err
		}
		if len(d.entries) > before {
			last = time.Now()
		}
		idle := time.Since(last)
		if idle >= quiet || idle >= time.Second/2 && d.executed() >= all {
			return last, nil
		}
		sleep.For(ctx, 20*time.Millisecond)
	}
	return last, ctx.Err()
}

const success = "SUCCESS"

func (d *decisions) executed() (n int) {
	for _, e := range d.entries {
		if e.Status == success {
			n++
		}
	}
	return n
}

// verdict is what a run showed.
type verdict struct {
	sent, executed int
	refused        int // for lack of room, or behind such a one, or gone with its relay; and not executed
	twice          int
	disorder       int // executed before one with a lower nonce
	toldFalse      int
	broken         int // hashes
	paid           int
	took, slowest  time.Duration
	answers        map[string]int // that are no hashes
}

// share is how much was executed of what the fleet had room for, in percent.
func (v verdict) share() float64 {
	if v.sent == v.refused {
		return 0
	}
	return 100 * float64(v.executed) / float64(v.sent-v.refused)
}

// judge compares what clients heard with what the network did.
func (d *decisions) judge(sent []*sending) verdict {
	v := verdict{sent: len(sent), answers: map[string]int{}}
	times := map[common.Hash]int{}
	reached := map[common.Address]uint64{}
	for _, e := range d.entries {
		if e.Status != success {
			v.paid++
			continue
		}
		times[e.Hash]++
		if e.Nonce < reached[e.Sender] {
			v.disorder++
		}
		reached[e.Sender] = max(reached[e.Sender], e.Nonce+1)
	}
	lost := map[common.Address]uint64{} // the lowest nonce of each sender for which there was no room
	for _, one := range sent {
		if least, ok := lost[one.sender]; one.refuse && times[one.hash] == 0 && (!ok || one.nonce < least) {
			lost[one.sender] = one.nonce
		}
	}
	for _, one := range sent {
		least, hole := lost[one.sender]
		n := times[one.hash]
		switch {
		case n > 1:
			v.twice++
			fallthrough
		case n == 1:
			v.executed++
			if one.saysFailed() {
				v.toldFalse++
			}
		case one.answer == gotHash:
			v.broken++
		case one.gone, hole && one.nonce >= least:
			v.refused++
		}
		if one.answer != gotHash {
			v.answers[one.answer]++
		}
		v.slowest = max(v.slowest, one.waited)
	}
	return v
}

// saysFailed tells whether the answer says that the transaction was not executed. That its nonce is
// spent says no such thing to a client that sent it before; that nothing is known says nothing.
func (s *sending) saysFailed() bool {
	switch {
	case s.answer == gotHash, s.answer == nothing:
		return false
	case strings.Contains(s.answer, "outcome is not known"):
		return false
	case s.again && strings.Contains(s.answer, "Nonce too low"):
		return false
	default:
		return true
	}
}
