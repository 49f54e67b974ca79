package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"lockstep/internal/access"
	"lockstep/txmgr"
)

// maxWait bounds ?timeout=.
const maxWait = time.Minute

// Waiting are the query parameters of calls that can wait.
type Waiting struct {
	Wait    string `query:"wait" enum:"broadcast,mined,confirmed" doc:"Answer when the transaction has reached this status, or is final."`
	Timeout string `query:"timeout" doc:"Maximum time to wait, such as 10s. It cannot be longer than a minute." default:"10s"`
}

// until returns the status to wait for, "" for none.
func (w Waiting) until() (txmgr.Status, time.Duration, error) {
	if w.Wait == "" {
		return "", 0, nil
	}
	limit, err := time.ParseDuration(w.Timeout)
	if err != nil || limit <= 0 || limit > maxWait {
		return "", 0, &txmgr.InvalidError{Field: "timeout", Problem: "want a duration up to 1m, such as 10s"}
	}
	return txmgr.Status(w.Wait), limit, nil
}

// KeyHeader is the header of idempotent calls.
type KeyHeader struct {
	Key string `header:"Idempotency-Key" maxLength:"256" doc:"The same key and body give the same transaction, whenever they come again."`
}

// one is the answer with one transaction.
type one struct {
	Status int
	Body   Transaction
}

type sendInput struct {
	Waiting
	KeyHeader
	Body IntentBody
}

type batchInput struct {
	KeyHeader
	Body []IntentBody `minItems:"1"`
}

type list struct {
	Body struct {
		Transactions []Transaction `json:"transactions"`
		Cursor       string        `json:"cursor,omitempty" doc:"Of the next page; none at the end."`
	}
}

type byID struct {
	Waiting
	ID string `path:"id" maxLength:"64"`
}

type replaceInput struct {
	KeyHeader
	ID   string `path:"id" maxLength:"64"`
	Body IntentBody
}

type rawInput struct {
	Waiting
	KeyHeader
	Body struct {
		Chain       ChainID `json:"chain"`
		RawTx       Bytes   `json:"rawTx" doc:"The signed transaction."`
		Reservation string  `json:"reservation,omitempty" maxLength:"64" doc:"The id that POST /v1/nonces gave. Needed if the caller had this nonce several times."`
		Subject     string  `json:"subject,omitempty" maxLength:"256"`
		Actor       string  `json:"actor,omitempty" maxLength:"256"`
		RequestID   string  `json:"requestId,omitempty" maxLength:"256"`
	}
}

type findInput struct {
	Hash   string `query:"hash" maxLength:"80"`
	Key    string `query:"idempotencyKey" maxLength:"256"`
	Chain  string `query:"chain" maxLength:"64"`
	Signer string `query:"signer" maxLength:"80"`
	Nonce  string `query:"nonce" maxLength:"20"`
	Status string `query:"status" enum:"accepted,assigned,signed,broadcast,unknown,mined,confirmed,reverted,failed,cancelled,expired,replaced"`
	Cursor string `query:"cursor" maxLength:"64"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type simulated struct {
	Body struct {
		Success     bool      `json:"success"`
		Reason      string    `json:"reason,omitempty" doc:"Why it would fail."`
		Output      Bytes     `json:"output,omitempty"`
		Gas         uint64    `json:"gas"`
		GasPrice    *Quantity `json:"maxGasPrice" doc:"The highest price per gas that it can reach."`
		MaxGasTotal *Quantity `json:"maxGasTotal" doc:"gas × price, without the value."`
	}
}

func (s *Server) transactions() {
	send := operation(access.RoleSend, http.MethodPost, "/v1/transactions", "send", "Hand over an intent", 409, 410, 429)
	send.DefaultStatus = http.StatusAccepted
	register(s, send, s.send)
	batch := operation(access.RoleSend, http.MethodPost, "/v1/transactions/batch", "sendBatch", "Hand over several intents; all or none are accepted", 409, 410, 429)
	batch.DefaultStatus, batch.MaxBodyBytes = http.StatusAccepted, 8<<20
	register(s, batch, s.batch)
	register(s, operation(access.RoleSend, http.MethodPost, "/v1/transactions/simulate", "simulate", "What would happen, and the maximum cost"), s.simulate)
	raw := operation(access.RoleSend, http.MethodPost, "/v1/transactions/raw", "sendRaw", "Hand over a transaction that the caller signed", 409, 410, 423, 429)
	raw.DefaultStatus = http.StatusAccepted
	register(s, raw, s.raw)
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/transactions/{id}", "transaction", "What became of an intent", 404), func(ctx context.Context, in *byID) (*one, error) {
		return s.see(ctx, in.ID, in.Waiting, http.StatusOK)
	})
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/transactions", "find", "Find intents, newest first"), s.find)
	cancel := operation(access.RoleSend, http.MethodPost, "/v1/transactions/{id}/cancel", "cancel", "Cancel an intent", 404, 409)
	cancel.DefaultStatus = http.StatusAccepted
	register(s, cancel, s.cancel)
	replace := operation(access.RoleSend, http.MethodPost, "/v1/transactions/{id}/replace", "replace", "Put another payload in the place of an intent", 404, 409)
	replace.DefaultStatus = http.StatusAccepted
	register(s, replace, s.replace)
}

func (s *Server) send(ctx context.Context, in *sendInput) (*one, error) {
	if _, _, err := in.until(); err != nil {
		return nil, err
	}
	intent, err := s.Manager.Submit(ctx, in.Body.request(caller(ctx).Tenant, in.Key))
	if err != nil {
		return nil, err
	}
	return s.follow(ctx, intent, in.Waiting)
}

// follow answers with an intent that was just accepted, at once or when it has come as far
// as the caller wants.
func (s *Server) follow(ctx context.Context, intent *txmgr.Intent, w Waiting) (*one, error) {
	if w.Wait == "" {
		return &one{Status: http.StatusAccepted, Body: viewIntent(intent)}, nil
	}
	out, err := s.see(ctx, intent.ID, w, http.StatusAccepted)
	if err == nil {
		// One key, one answer: what grows with time is for those who ask for it.
		out.Body.Attempts, out.Body.Timeline = nil, nil
	}
	return out, err
}

// see waits, if asked to, and shows a transaction. The status is early until it has come as
// far as was asked for.
func (s *Server) see(ctx context.Context, id string, w Waiting, early int) (*one, error) {
	until, limit, err := w.until()
	if err != nil {
		return nil, err
	}
	full, err := s.await(ctx, id, until, limit)
	if err != nil {
		return nil, err
	}
	out := &one{Status: early, Body: viewTransaction(full)}
	if until != "" && (full.Status.Ended() || full.Status.Rank() >= until.Rank()) {
		out.Status = http.StatusOK
	}
	return out, nil
}

func (s *Server) await(ctx context.Context, id string, until txmgr.Status, limit time.Duration) (*txmgr.Transaction, error) {
	tenant := caller(ctx).Tenant
	if until == "" {
		return s.Manager.Get(ctx, tenant, id)
	}
	select {
	case s.waits <- struct{}{}:
		defer func() { <-s.waits }()
	default:
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(s.stopping(ctx), cancel)
	defer stop()
	return s.Manager.Wait(ctx, tenant, id, until)
}

// stopping is a context that ends when the process stops, or the given one does.
func (s *Server) stopping(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-s.closing:
		case <-ctx.Done():
		}
	}()
	return ctx
}

func (s *Server) batch(ctx context.Context, in *batchInput) (*list, error) {
	if len(in.Body) > s.cfg.Batch {
		return nil, &txmgr.InvalidError{Field: "", Problem: fmt.Sprintf("more than %d transactions", s.cfg.Batch)}
	}
	requests := make([]txmgr.Request, 0, len(in.Body))
	for i, body := range in.Body {
		key := body.IdempotencyKey
		if key == "" && in.Key != "" {
			key = fmt.Sprintf("%s/%d", in.Key, i)
		}
		requests = append(requests, body.request(caller(ctx).Tenant, key))
	}
	intents, err := s.Manager.SubmitBatch(ctx, requests)
	if err != nil {
		return nil, err
	}
	out := &list{}
	for _, intent := range intents {
		out.Body.Transactions = append(out.Body.Transactions, viewIntent(intent))
	}
	return out, nil
}

func (s *Server) simulate(ctx context.Context, in *struct{ Body IntentBody }) (*simulated, error) {
	result, cost, err := s.Manager.Simulate(ctx, in.Body.request(caller(ctx).Tenant, ""))
	if err != nil {
		return nil, err
	}
	out := &simulated{}
	out.Body.Success, out.Body.Reason, out.Body.Output, out.Body.Gas = result.Success, result.Reason, result.Output, result.Gas
	out.Body.GasPrice, out.Body.MaxGasTotal = quantity(cost.Price), quantity(cost.Total)
	return out, nil
}

func (s *Server) raw(ctx context.Context, in *rawInput) (*one, error) {
	if _, _, err := in.until(); err != nil {
		return nil, err
	}
	intent, err := s.Manager.Raw(ctx, txmgr.RawRequest{
		Tenant: caller(ctx).Tenant, Chain: string(in.Body.Chain), IdempotencyKey: in.Key, Origin: "raw", Raw: in.Body.RawTx,
		RawSlot: txmgr.RawSlot{Reservation: in.Body.Reservation}, Subject: in.Body.Subject, Actor: in.Body.Actor, RequestID: in.Body.RequestID,
	})
	if err != nil {
		return nil, s.duplicate(ctx, intent, err)
	}
	return s.follow(ctx, intent, in.Waiting)
}

// duplicate names the transaction that has the bytes already, if the caller may see it.
func (s *Server) duplicate(ctx context.Context, earlier *txmgr.Intent, err error) error {
	if !errors.Is(err, txmgr.ErrDuplicate) || earlier == nil {
		return err
	}
	p := s.problem(ctx, err)
	if who := caller(ctx); who.Tenant == "" || who.Tenant == earlier.Tenant {
		p.ID = earlier.ID
	}
	return p
}

func (s *Server) find(ctx context.Context, in *findInput) (*list, error) {
	q := txmgr.Query{
		Tenant: caller(ctx).Tenant, Chain: in.Chain, Hash: in.Hash, Key: in.Key, Signer: in.Signer, Status: txmgr.Status(in.Status), Cursor: in.Cursor, Limit: in.Limit,
	}
	if in.Nonce != "" {
		n, err := parseQuantity(in.Nonce)
		if err != nil || !n.IsUint64() {
			return nil, &txmgr.InvalidError{Field: "nonce", Problem: "want a number"}
		}
		nonce := n.Uint64()
		q.Nonce = &nonce
	}
	if q.Signer != "" && q.Chain != "" {
		c, err := s.Manager.Chain(q.Chain)
		if err != nil {
			return nil, err
		}
		if q.Signer, err = c.Account(q.Signer); err != nil {
			return nil, &txmgr.InvalidError{Field: "signer", Problem: err.Error()}
		}
	}
	intents, cursor, err := s.Manager.Find(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &list{}
	out.Body.Transactions, out.Body.Cursor = make([]Transaction, 0, len(intents)), cursor
	for _, intent := range intents {
		out.Body.Transactions = append(out.Body.Transactions, viewIntent(intent))
	}
	return out, nil
}

func (s *Server) cancel(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"64"`
},
) (*one, error) {
	intent, err := s.Manager.Cancel(ctx, caller(ctx).Tenant, in.ID)
	if err != nil {
		return nil, err
	}
	return &one{Status: http.StatusAccepted, Body: viewIntent(intent)}, nil
}

func (s *Server) replace(ctx context.Context, in *replaceInput) (*one, error) {
	intent, err := s.Manager.Replace(ctx, caller(ctx).Tenant, in.ID, in.Body.request(caller(ctx).Tenant, in.Key))
	if err != nil {
		return nil, err
	}
	return &one{Status: http.StatusAccepted, Body: viewIntent(intent)}, nil
}
