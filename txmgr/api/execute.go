package api

import (
	"context"
	"net/http"

	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/txmgr"
)

// The states of a record.
const (
	recordInflight = "inflight"
	recordDone     = "done"
	recordFailed   = "failed"
)

// Record is what short-lived runtimes get: the result of an idempotency key, or that it is
// still on its way.
type Record struct {
	Status    string   `json:"status" enum:"inflight,done,failed"`
	TxHash    string   `json:"txHash,omitempty"`
	Outcome   *Outcome `json:"outcome,omitempty"`
	UpdatedAt int64    `json:"updatedAt" doc:"Milliseconds since 1970."`
}

// Outcome is what happened.
type Outcome struct {
	ID        string       `json:"id"`
	Status    txmgr.Status `json:"status"`
	Final     bool         `json:"final"`
	Block     uint64       `json:"blockNumber,omitempty"`
	BlockHash string       `json:"blockHash,omitempty"`
	GasUsed   uint64       `json:"gasUsed,omitempty"`
	Contract  string       `json:"contractAddress,omitempty"`
	Error     string       `json:"error,omitempty"`
}

func recordOf(i *txmgr.Intent) Record {
	r := Record{Status: recordInflight, TxHash: i.Hash, UpdatedAt: i.Updated / 1000}
	success := i.Receipt != nil && i.Receipt.Success
	switch {
	case i.Status == txmgr.StatusConfirmed, i.Status == txmgr.StatusMined && success:
		r.Status = recordDone
	case i.Status == txmgr.StatusMined, i.Status.Ended():
		r.Status = recordFailed
	default:
		return r
	}
	r.Outcome = &Outcome{ID: i.ID, Status: i.Status, Final: i.Final}
	if i.Receipt != nil {
		r.Outcome.Block, r.Outcome.BlockHash, r.Outcome.GasUsed, r.Outcome.Contract = i.Receipt.Block, i.Receipt.BlockHash, i.Receipt.GasUsed, i.Receipt.Contract
	}
	r.Outcome.Error = i.Message
	return r
}

type executeInput struct {
	Body struct {
		Key            string     `json:"key" maxLength:"256" doc:"Intents of one key are executed in the order of their acceptance."`
		IdempotencyKey string     `json:"idempotencyKey" minLength:"1" maxLength:"256"`
		Intent         IntentBody `json:"intent"`
		Until          string     `json:"until,omitempty" enum:"mined,confirmed" doc:"How far it must have come to be done; mined if not given."`
		Timeout        string     `json:"timeout,omitempty" doc:"How long to follow it; 25s if not given. Ask again with the same body to go on."`
	}
}

const followDefault = "25s"

func (s *Server) execute() {
	op := s.Operation(access.RoleSend, http.MethodPost, "/internal/execute", "execute", "For short-lived runtimes: the stored result of a key, or that of the running one", 410, 429)
	rest.Register(s.Server, op, func(ctx context.Context, in *executeInput) (*struct{ Body Record }, error) {
		w := Waiting{Wait: in.Body.Until, Timeout: in.Body.Timeout}
		if w.Wait == "" {
			w.Wait = string(txmgr.StatusMined)
		}
		if w.Timeout == "" {
			w.Timeout = followDefault
		}
		until, limit, err := w.until()
		if err != nil {
			return nil, err
		}
		request := in.Body.Intent.request(caller(ctx).Tenant, in.Body.IdempotencyKey)
		if in.Body.Key != "" {
			request.OrderKey = in.Body.Key
		}
		request.Origin = "execute"
		intent, err := s.Manager.Submit(ctx, request)
		if err != nil {
			return nil, err
		}
		return &struct{ Body Record }{recordUntil(s.watch(ctx, intent, until, limit), until)}, nil
	})
}

// recordUntil is the record for a caller to whom a transaction is done only when it has come as far as that.
func recordUntil(t *txmgr.Transaction, until txmgr.Status) Record {
	r := recordOf(&t.Intent)
	if until == txmgr.StatusConfirmed && !t.Status.Ended() {
		r.Status, r.Outcome = recordInflight, nil
	}
	return r
}
