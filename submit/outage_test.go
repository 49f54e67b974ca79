package submit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/submit"
)

// outOfNodes are the ways in which no node takes a transaction, and what the client is told.
var outOfNodes = map[string]struct {
	err  error
	told string
}{
	"no node can be reached": {&consensus.NotSentError{Err: errors.New("no connection")}, "No consensus node could be reached"},
	"all nodes are busy":     {&consensus.StatusError{Status: hapi.ResponseCodeEnum_BUSY, Node: hedera.Entity(3)}, "BUSY"},
}

// When no node takes the head of a sender's line, those behind it hear why. Their nonces are right, so nobody
// is told anything about a nonce, whenever it came to the line.
func TestFollowersHearWhyTheHeadWasNotSent(t *testing.T) {
	const taken, line = 3, 8
	for cause, out := range outOfNodes {
		for name, change := range map[string]func(*network, *options){
			"verdicts known":     nil,
			"verdicts open":      func(n *network, o *options) { n.delay = 20 * time.Second },
			"told at acceptance": func(n *network, o *options) { n.delay = 20 * time.Second; o.submit.Returns = submit.ReturnsAccepted },
			"mirror node behind": func(n *network, _ *options) { n.shows = behind(0, time.Hour) },
			"without look-ups":   func(_ *network, o *options) { o.submit.SkipLookUps = true },
			"without a window":   func(_ *network, o *options) { o.lock.Window = 0 },
			"with a long window": func(_ *network, o *options) { o.lock.Window = envx.Millis(5 * time.Second) },
			"without recovery":   func(_ *network, o *options) { o.lock.Recovery = 0 },
			"neither of both":    func(_ *network, o *options) { o.lock.Recovery, o.lock.Window = 0, 0 },
		} {
			bubble(t, cause+", "+name, func(t *testing.T) {
				n, key := newNetwork(), newKey(t)
				n.hang = func(ctx context.Context, nonce uint64) error {
					if nonce < taken {
						return nil
					}
					time.Sleep(2 * time.Second) //nolint:forbidigo // fake time: the client tries other nodes
					return out.err
				}
				s := newSubmitter(t, n, func(o *options) {
					if change != nil {
						change(n, o)
					}
				})
				answers := make([]error, line+2)
				begun := time.Now()
				var clients sync.WaitGroup
				send := func(nonce uint64) {
					entry, err := s.Enter(transfer(t, key, nonce))
					if err != nil {
						t.Error(err)
						return
					}
					clients.Go(func() {
						answers[nonce] = entry.Finish(t.Context()).Err
						if waited := time.Since(begun); waited > 10*time.Second && nonce >= taken {
							t.Errorf("nonce %d was answered after %v", nonce, waited)
						}
					})
				}
				for nonce := range uint64(line) {
					send(nonce)
				}
				time.Sleep(time.Second) //nolint:forbidigo // fake time: the head is on its way
				send(line)
				time.Sleep(time.Second + 50*time.Millisecond) //nolint:forbidigo // fake time: the head has its answer
				send(line + 1)
				clients.Wait()
				for nonce, err := range answers {
					want := ""
					if nonce >= taken {
						want = out.told
					}
					var client *eth.Error
					if got := fmt.Sprint(err); err != nil && !errors.As(err, &client) || (err != nil) != (want != "") || !strings.Contains(got, want) {
						t.Errorf("nonce %d hears %v, want %q", nonce, err, want)
					}
				}
			})
		}
	}
}

// A lane recovers from a hole, and then no node takes the transaction that is missing: what came back to the line
// to wait for it hears why it waits in vain.
func TestFollowersInARecoveringLaneHearWhy(t *testing.T) {
	const missing, line = 3, 8
	for cause, out := range outOfNodes {
		bubble(t, cause, func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			n.vanish = once(missing)
			offers := 0
			n.hang = func(_ context.Context, nonce uint64) error {
				if nonce == missing {
					offers++
				}
				if offers < 2 {
					return nil
				}
				return out.err
			}
			s := newSubmitter(t, n, nil)
			answers := make([]error, line)
			begun := time.Now()
			var clients sync.WaitGroup
			for nonce := range uint64(line) {
				entry := enter(t, s, key, nonce)
				clients.Go(func() {
					answers[nonce] = entry.Finish(t.Context()).Err
					if waited := time.Since(begun); waited > 10*time.Second {
						t.Errorf("nonce %d was answered after %v", nonce, waited)
					}
				})
			}
			clients.Wait()
			for nonce, err := range answers {
				want := ""
				if nonce > missing {
					want = out.told
				}
				if nonce == missing { // its node took it once, and one node's word is no proof
					want = "outcome is not known"
				}
				if (err != nil) != (want != "") || !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("nonce %d hears %v, want %q", nonce, err, want)
				}
			}
		})
	}
}
