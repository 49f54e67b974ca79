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
	if early.Next(shows(5)).Step != lock.Go {
		t.Fatal("held back although nobody waits")
	}
	var tickets []*lock.Ticket
	for _, nonce := range []uint64{8, 6, 10, 5, 7} {
		tickets = append(tickets, b.enter(0, nonce))
	}
	if early.Next(shows(4)).Step != lock.GiveWay {
		t.Fatal("the one that is expected waits, and is not let pass")
	}
	turn := early.Context()
	if !early.PutBack(0) || turn.Err() == nil || early.Check() == nil || early.PutBack(0) {
		t.Error("the turn that was given away still counts")
	}
	b.places(5)
	b.wantOrder(b.order(append(tickets, first), advance), count(5, 6))
}

// What fails again and again does not keep those ahead of it from their turn: they wait for what
// was there before, and for no more.
func testNextGoesFirstOnce(t *testing.T, b *bench) {
	b.start(nil)
	first := b.enter(0, 7)
	tickets := []*lock.Ticket{b.enter(0, 5), b.enter(0, 5)}
	lease := b.wait(first)
	if lease.Next(shows(5)).Step != lock.GiveWay {
		t.Fatal("the one that is expected waits, and is not let pass")
	}
	lease.PutBack(0)
	tickets = append(tickets, first)
	b.places(2) // before one more is counted
	tickets = append(tickets, b.enter(0, 5))
	b.wantOrder(b.order(tickets, nil), []uint64{5, 5, 7, 5})
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
	lease := b.wait(top)
	if lease.Next(shows(0)).Step != lock.GiveWay {
		t.Fatal("the one that is expected waits, and is not let pass")
	}
	lease.PutBack(0)
	b.wantOrder(b.order(append(tickets, top), advance), count(0, n+1))
}
