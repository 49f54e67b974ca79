package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/txmgr"
)

// Reservation is a nonce that a caller holds who signs for itself.
type Reservation struct {
	ID        string  `json:"id"`
	Chain     string  `json:"chain"`
	Address   string  `json:"address"`
	Nonce     uint64  `json:"nonce"`
	Status    string  `json:"status" enum:"held,used,recycled,expired"`
	ExpiresAt *Moment `json:"expiresAt"`
	LockID    string  `json:"lockId,omitempty"`
}

func viewReservation(r *txmgr.Reservation, err error) (*rest.Out[Reservation], error) {
	if err != nil {
		return nil, err
	}
	return &rest.Out[Reservation]{Body: Reservation{ID: r.ID, Chain: r.Chain, Address: r.Signer, Nonce: r.Nonce, Status: r.Status, ExpiresAt: moment(r.Expires), LockID: r.LockID}}, nil
}

// Account names an account of a chain in a body.
type Account struct {
	Chain   ChainID `json:"chain"`
	Address string  `json:"address" maxLength:"80"`
}

type unlocked struct {
	Unlocked bool `json:"unlocked"`
}

type recycled struct {
	Recycled bool `json:"recycled"`
}

// Health is what an account's nonces look like.
type Health struct {
	Chain string `json:"chain"`
	NonceState
	Owner  string `json:"owner,omitempty"`
	Halted string `json:"halted,omitempty"`
}

// NonceState is what the older spelling has of it.
type NonceState struct {
	Address          string `json:"address"`
	TrackedNonce     uint64 `json:"trackedNonce" doc:"The next nonce that will be given out."`
	ChainNonce       uint64 `json:"chainNonce"`
	PendingCount     int    `json:"pendingCount"`
	OldestPendingAge string `json:"oldestPendingAge" doc:"Such as 45s."`
	GapCount         int    `json:"gapCount"`
}

// nonceHealth looks at an account, whoever's it is.
func (s *Server) nonceHealth(ctx context.Context, _, chain, account string) (Health, error) {
	h, err := s.Manager.Health(ctx, chain, account)
	if err != nil {
		return Health{}, err
	}
	age := "0s"
	if h.Oldest > 0 {
		age = time.Since(time.UnixMicro(h.Oldest)).Round(time.Second).String()
	}
	state := NonceState{Address: h.Signer, TrackedNonce: h.NextNonce, ChainNonce: h.LatestNonce, PendingCount: h.Pending, OldestPendingAge: age, GapCount: h.Gaps}
	return Health{Chain: h.Chain, NonceState: state, Owner: h.Owner, Halted: h.Halted}, nil
}

// reserveWait bounds how long a call waits for the owner to read an account's nonce, and for
// its turn when many reserve at once.
const reserveWait = 30 * time.Second

// inTurn gives a call that may have to wait for an account's owner a place and its time.
func inTurn[Of, T any](ctx context.Context, s *Server, ask func(ctx context.Context, tenant, chain, account string) (Of, error), chain, account string, view func(Of, error) (T, error)) (T, error) {
	tenant := caller(ctx).Tenant
	giveBack := s.waits.Take(tenant)
	if giveBack == nil {
		var none Of
		return view(none, rest.ErrBusy)
	}
	defer giveBack()
	ctx, cancel := context.WithTimeout(ctx, reserveWait)
	defer cancel()
	return view(ask(ctx, tenant, chain, account))
}

func (s *Server) nonces() {
	reserve := s.Operation(access.RoleSend, http.MethodPost, "/v1/nonces", "reserve", "Reserve the next nonce of an account", 423, 429)
	reserve.Description += " While somebody has the account alone, the answer is 423."
	rest.Register(s.Server, reserve, func(ctx context.Context, in *struct{ Body struct{ Account } }) (*rest.Out[Reservation], error) {
		return inTurn(ctx, s, s.Manager.Acquire, string(in.Body.Chain), in.Body.Address, viewReservation)
	})
	type byID struct {
		ID string `path:"id" maxLength:"64"`
	}
	rest.Register(s.Server, s.Operation(access.RoleSend, http.MethodPost, "/v1/nonces/{id}/renew", "renewReservation", "Give a reservation its full time again", 409), func(ctx context.Context, in *byID) (*rest.Out[Reservation], error) {
		return viewReservation(s.Manager.RenewReservation(ctx, caller(ctx).Tenant, in.ID))
	})
	rest.Register(s.Server, s.Operation(access.RoleSend, http.MethodPost, "/v1/nonces/{id}/recycle", "recycle", "Give a reservation back that was not used", 409), func(ctx context.Context, in *byID) (*rest.Out[recycled], error) {
		done, err := s.Manager.Recycle(ctx, caller(ctx).Tenant, in.ID)
		return rest.Answered(recycled{done}, err)
	})
	lock := s.Operation(access.RoleSend, http.MethodPost, "/v1/nonces/lock", "lock", "Have an account alone, with its next nonce", 423, 429)
	lock.Description += " Until the lock is ended, or its time has passed (`expiresAt`), nobody gets another nonce of the account: a reservation, a second lock and a transaction" +
		" without a reservation get 423, and intents wait. What has its nonce already goes on. The nonce of the lock is a reservation, which counts for the tenant's maximum; its id is the lock's."
	rest.Register(s.Server, lock, func(ctx context.Context, in *struct {
		Body struct {
			Account
			RequestID string `json:"requestId,omitempty" maxLength:"256"`
		}
	},
	) (*rest.Out[Reservation], error) {
		return inTurn(ctx, s, s.Manager.Lock, string(in.Body.Chain), in.Body.Address, viewReservation)
	})
	rest.Register(s.Server, s.Operation(access.RoleSend, http.MethodPost, "/v1/nonces/unlock", "unlock", "End a lock"), func(ctx context.Context, in *struct {
		Body struct {
			Account
			LockID string `json:"lockId" maxLength:"80"`
		}
	},
	) (*rest.Out[unlocked], error) {
		done, err := s.Manager.Unlock(ctx, caller(ctx).Tenant, string(in.Body.Chain), in.Body.Address, in.Body.LockID)
		return rest.Answered(unlocked{done}, err)
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/nonces/health", "nonceHealth", "What an account's nonces look like", 429), func(ctx context.Context, in *struct {
		Chain   string `query:"chain" required:"true" maxLength:"64"`
		Address string `query:"address" required:"true" maxLength:"80"`
	},
	) (*rest.Out[Health], error) {
		return inTurn(ctx, s, s.nonceHealth, chainName(in.Chain), in.Address, rest.Answered[Health])
	})
}

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
		w.Wait = cmp.Or(w.Wait, string(txmgr.StatusMined))
		w.Timeout = cmp.Or(w.Timeout, followDefault)
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
