package lifecycle_test

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/relay/lifecycle"
)

// A journal tells the steps in their order, some at a time, and forgets the oldest; a service that keeps no records has one, too.
func TestJournal(t *testing.T) {
	var j lifecycle.Journal
	s, sender := lifecycle.Disabled(), common.Address{7}
	s.Follow(&j)
	if list, next := j.From(0, 10); len(list) != 0 || next != 0 {
		t.Errorf("of nothing: %v, %d", list, next)
	}
	tell := func(nonce uint64) {
		s.Record(common.Hash{1}, lifecycle.Step{Name: lifecycle.Received, Sender: sender, Nonce: nonce})
	}
	for nonce := range uint64(3) {
		tell(nonce)
	}
	list, next := j.From(1, 1)
	if len(list) != 1 || list[0].Nonce != 1 || list[0].Sender != sender || list[0].Step != lifecycle.Received || list[0].At == 0 || next != 2 {
		t.Errorf("the second step: %+v, %d", list, next)
	}
	if list, next := j.From(99, 10); len(list) != 3 || next != 3 {
		t.Errorf("for whoever comes from an earlier process: %v, %d", list, next)
	}
	const kept = 8192
	for nonce := uint64(3); nonce < kept+5; nonce++ {
		tell(nonce)
	}
	if list, next := j.From(0, 2); len(list) != 2 || list[0].Nonce != 5 || next != 7 {
		t.Errorf("the oldest that are kept: %+v, %d", list, next)
	}
	if list, next := j.From(kept, 100); len(list) != 5 || next != kept+5 {
		t.Errorf("the newest: %d, %d", len(list), next)
	}
}
