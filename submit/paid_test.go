package submit_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/consensus"
	"lockstep/submit"
)

// slowMirror shows nothing of what happened in the last three seconds.
type slowMirror struct {
	*network
	until time.Time
	nonce uint64
}

func (m *slowMirror) Account(ctx context.Context, a common.Address) (submit.Account, bool, error) {
	account, found, err := m.network.Account(ctx, a)
	if time.Now().Before(m.until) {
		account.Nonce = m.nonce
	}
	return account, found, err
}

// Somebody else executes nonce 1 of a burst right before ours arrives, and the mirror node does not
// show it for three seconds. Ours is refused, which is not paid for again and again until the mirror
// node knows, and its client does not hear that the nonce is too high.
func TestSpentElsewhereIsNotPaidForAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		sender := crypto.PubkeyToAddress(key.PublicKey)
		mirror := &slowMirror{network: n, until: time.Now().Add(3 * time.Second), nonce: 1}
		n.nonces[sender] = 0
		stolen := false
		n.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
			if nonce == 1 && !stolen {
				stolen = true
				n.nonces[sender] = 2
			}
			return true, nil
		}
		s := newSubmitter(t, n, func(o *options) { o.chain = mirror })
		mirror.nonce = 0
		results := make(chan submit.Result, 2)
		first, err := s.Enter(transfer(t, key, 0))
		if err != nil {
			t.Fatal(err)
		}
		second, err := s.Enter(transfer(t, key, 1))
		if err != nil {
			t.Fatal(err)
		}
		go func() { results <- first.Finish(t.Context()) }()
		go func() { results <- second.Finish(t.Context()) }()
		for range 2 {
			r := <-results
			if r.Outcome == submit.Executed {
				continue
			}
			if r.Outcome != submit.Rejected || r.Err == nil || !strings.Contains(r.Err.Error(), "Nonce too low. Provided nonce: 1, current nonce: 2") {
				t.Errorf("%s: %v", r.Outcome, r.Err)
			}
		}
		if got := paid(t, s); got > 2 {
			t.Errorf("%d paid rejections; after the verdict on nonce 0 the second one proves that nonce 1 is spent", got)
		}
	})
}
