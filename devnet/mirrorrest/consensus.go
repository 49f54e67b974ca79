package mirrorrest

import (
	"github.com/ethereum/go-ethereum/common"
)

type consensusEntryJSON struct {
	Sequence int64          `json:"sequence"`
	Sender   common.Address `json:"sender"`
	Nonce    uint64         `json:"nonce"`
	Hash     common.Hash    `json:"hash"`
	Node     string         `json:"node"`
	Status   string         `json:"status"`
	Time     string         `json:"time"`
}

type consensusJSON struct {
	Entries []consensusEntryJSON `json:"entries"`
	Next    int64                `json:"next"`
}

// maxConsensusPage bounds one answer of the consensus log.
const maxConsensusPage = 1000

// listConsensus answers /devnet/consensus: the Ethereum transactions in the order
// in which consensus saw them, whatever became of them, from since on. Next is the
// since of the following page; it stays when there is nothing new.
func listConsensus(r *request) (any, error) {
	q, err := r.query(params{"since": isExactCount, "limit": isExactCount}, single)
	if err != nil {
		return nil, err
	}
	since, limit := int64(0), int64(maxConsensusPage)
	if text, given := q.last("since"); given {
		since, _ = parseCount(text)
	}
	if text, given := q.last("limit"); given {
		n, _ := parseCount(text)
		limit = max(1, min(n, maxConsensusPage))
	}
	out := consensusJSON{Entries: []consensusEntryJSON{}, Next: since}
	for _, e := range r.view.ConsensusLog(since, int(limit)) {
		out.Entries = append(out.Entries, consensusEntryJSON{
			Sequence: e.Sequence,
			Sender:   e.Sender,
			Nonce:    e.Nonce,
			Hash:     e.Hash,
			Node:     e.Node.String(),
			Status:   e.Status.String(),
			Time:     e.Time.String(),
		})
		out.Next = e.Sequence + 1
	}
	return out, nil
}

// health answers the probes: an API that answers is alive, and ready, since there
// is a block from the start.
func health(*request) (any, error) {
	return struct {
		Status string `json:"status"`
	}{"OK"}, nil
}
