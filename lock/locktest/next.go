package locktest

import (
	"testing"

	"lockstep/lock"
)

// L18 without a hold-back window: of the transactions that one process has, the next one goes
// first, and what is ahead of it loses nothing but its turn.
func testNextGoesFirst(t *testing.T, b *bench) {
	b.start(nil)
	first := b.enter(0, 9)
	early := b.wait(first)
	if early.StepBack(5) {
		t.Fatal("stepped back although nobody waits")
	}
	var tickets []*lock.Ticket
	for _, nonce := range []uint64{8, 6, 10, 5, 7} {
		tickets = append(tickets, b.enter(0, nonce))
	}
	if early.StepBack(9) || early.StepBack(4) {
		t.Fatal("stepped back for a nonce that nobody carries, or its own")
	}
	turn := early.Context()
	if !early.StepBack(5) {
		t.Fatal("the one that is expected waits, but did not get the turn")
	}
	if turn.Err() == nil || early.Check() == nil || early.Advance(10, lock.Submission{}) {
		t.Error("the turn that was given away still counts")
	}
	if n := b.queued(); n != 5 {
		t.Errorf("%d places are taken, want 5", n)
	}
	b.wantOrder(b.order(append(tickets, first), advance), count(5, 6))
}

// What fails again and again does not keep those ahead of it from their turn.
func testNextGoesFirstOnce(t *testing.T, b *bench) {
	b.start(nil)
	first := b.enter(0, 7)
	first.Observe(5)
	again := []*lock.Ticket{b.enter(0, 5), b.enter(0, 5), b.enter(0, 5)}
	if !b.wait(first).StepBack(5) {
		t.Fatal("the one that is expected waits, but did not get the turn")
	}
	b.wait(again[0]).Release() // it was not sent
	lease := b.wait(first)
	if lease.StepBack(5) {
		t.Error("stepped back a second time for the same nonce")
	}
	lease.Release()
	b.wantOrder(b.order(again[1:], nil), []uint64{5, 5})
}

// A burst that arrives in reverse, in turns that each see one more of it.
func testNextGoesFirstInReverse(t *testing.T, b *bench) {
	const n = 60
	b.start(nil)
	top, err := b.on(0).Enter(b.sender, n)
	if err != nil {
		t.Fatal(err)
	}
	var tickets []*lock.Ticket
	for nonce := uint64(n); nonce > 0; nonce-- { // while places are being taken
		ticket, err := b.on(0).Enter(b.sender, nonce-1)
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	if !b.wait(top).StepBack(0) {
		t.Fatal("the one that is expected waits, but did not get the turn")
	}
	b.wantOrder(b.order(append(tickets, top), advance), count(0, n+1))
}
