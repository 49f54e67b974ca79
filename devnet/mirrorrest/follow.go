package mirrorrest

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// longestWait bounds how long a request waits for a block.
	longestWait = 30 * time.Second
	// lagStep is how often a mirror node that lags checks whether it may show a block
	// that exists already.
	lagStep = 5 * time.Millisecond
)

// generationHeader tells clients when the network has gone back, which no real one does: the
// number of the history that the answer is of, and the newest block that was left when it began.
const generationHeader = "Lockstep-Generation"

func (s *server) sayGeneration(h http.Header) {
	g := s.view().Generation()
	h.Set(generationHeader, fmt.Sprintf("%d:%d", g.Number, g.Block))
}

// followBlocks answers /devnet/blocks?from=N&wait=MS, which no real mirror node has:
// the blocks from number N on, oldest first, as soon as there is one. After MS
// milliseconds without one the list is empty. Asking again from the number after the
// last one gives every block once, in order, without polling.
func (s *server) followBlocks(r *request, q *query) (any, error) {
	from := q.count("from", 0)
	s.awaitBlock(r, from, time.Duration(min(q.count("wait", 0), longestWait.Milliseconds()))*time.Millisecond)
	view, blocks := s.view(), []any{}
	for number := from; len(blocks) < maxLimit; number++ {
		block, ok := view.BlockByNumber(number)
		if !ok {
			break
		}
		blocks = append(blocks, blockOf(block))
	}
	return object{"blocks": blocks}, nil
}

// awaitBlock returns when the block of that number, or a later one, can be shown, when the
// network goes back, or when there is no more time.
func (s *server) awaitBlock(r *request, number int64, wait time.Duration) {
	if s.changed == nil {
		return
	}
	changed, cancel := s.changed()
	defer cancel()
	over := time.NewTimer(wait)
	defer over.Stop()
	var lagging <-chan time.Time
	begun := r.view.Generation().Number
	for v := s.view(); v.LatestBlock().Number < number && v.Generation().Number == begun; v = s.view() {
		select {
		case <-changed:
			lagging = time.After(lagStep) // if it is not shown yet, it will be
		case <-lagging:
			lagging = time.After(lagStep)
		case <-over.C:
			return
		case <-s.closing:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// maxConsensusPage bounds one answer of the consensus log.
const maxConsensusPage = 1000

// listConsensus answers /devnet/consensus: the Ethereum transactions in the order
// in which consensus saw them, whatever became of them, from since on. Next is the
// since of the following page; it stays when there is nothing new.
func listConsensus(r *request, q *query) (any, error) {
	entries, next := []any{}, q.count("since", 0)
	for _, e := range r.view.ConsensusLog(next, int(max(1, min(q.count("limit", maxConsensusPage), maxConsensusPage)))) {
		entries = append(entries, object{
			"sequence": e.Sequence, "sender": e.Sender, "nonce": e.Nonce, "hash": e.Hash,
			"node": e.Node.String(), "status": e.Status.String(), "time": e.Time.String(),
		})
		next = e.Sequence + 1
	}
	return object{"entries": entries, "next": next}, nil
}
