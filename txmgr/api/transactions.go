package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"lockstep/console/rest"
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
	Key  string       `header:"Idempotency-Key" maxLength:"256" doc:"Of the batch as a whole. Without it the transactions may have keys of their own."`
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
	Hash string `query:"hash" maxLength:"80"`
	Key  string `query:"idempotencyKey" maxLength:"256"`
	ChainQuery
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

// The two answers of what can wait.
const (
	waited  = "With `wait`: the transaction has come as far as that, or is final."
	waiting = "Accepted. With `wait`: it did not come as far as that in time."
)

func (s *Server) transactions() {
	send := s.Operation(access.RoleSend, http.MethodPost, "/v1/transactions", "send", "Hand over an intent", 409, 410, 429)
	send.DefaultStatus = http.StatusAccepted
	rest.Register(s.Server, send, s.send)
	s.twoAnswers(send.Path, waited, waiting)
	batch := s.Operation(access.RoleSend, http.MethodPost, "/v1/transactions/batch", "sendBatch", "Hand over several intents; all or none are accepted", 409, 410, 429)
	batch.DefaultStatus, batch.MaxBodyBytes = http.StatusAccepted, 8<<20
	rest.Register(s.Server, batch, s.batch)
	rest.Register(s.Server, s.Operation(access.RoleSend, http.MethodPost, "/v1/transactions/simulate", "simulate", "What would happen, and the maximum cost"), s.simulate)
	raw := s.Operation(access.RoleSend, http.MethodPost, "/v1/transactions/raw", "sendRaw", "Hand over a transaction that the caller signed", 409, 410, 423, 429)
	raw.DefaultStatus = http.StatusAccepted
	rest.Register(s.Server, raw, s.raw)
	s.twoAnswers(raw.Path, waited, waiting)
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/transactions/{id}", "transaction", "What became of an intent", 404, 429), s.see)
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/transactions", "find", "Find intents, newest first"), s.find)
	cancel := s.Operation(access.RoleSend, http.MethodPost, "/v1/transactions/{id}/cancel", "cancel", "Cancel an intent", 404, 409)
	cancel.DefaultStatus = http.StatusAccepted
	rest.Register(s.Server, cancel, s.cancel)
	replace := s.Operation(access.RoleSend, http.MethodPost, "/v1/transactions/{id}/replace", "replace", "Put another payload in the place of an intent", 404, 409)
	replace.DefaultStatus = http.StatusAccepted
	rest.Register(s.Server, replace, s.replace)
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
	out := &one{Status: http.StatusAccepted, Body: viewIntent(intent)}
	until, limit, err := w.until()
	if err != nil || until == "" { // it was checked before the acceptance
		return out, nil //nolint:nilerr // accepted is accepted
	}
	full := s.watch(ctx, intent, until, limit)
	// One key, one answer: what grows with time is for those who ask for it.
	out.Body = viewTransaction(full)
	out.Body.Attempts, out.Body.Timeline = nil, nil
	if reached(full, until) {
		out.Status = http.StatusOK
	}
	return out, nil
}

// watch waits for an intent that was accepted. Whatever hinders the waiting, a crowd or a ledger that has stopped, the answer is what is
// known of the intent: to a caller an error would mean that nothing was accepted, and sending again would pay twice.
func (s *Server) watch(ctx context.Context, intent *txmgr.Intent, until txmgr.Status, limit time.Duration) *txmgr.Transaction {
	full, err := s.await(ctx, intent.ID, until, limit)
	if err != nil {
		s.log.DebugContext(ctx, "a call does not wait for what it handed over", "id", intent.ID, "err", err)
		return &txmgr.Transaction{Intent: *intent}
	}
	return full
}

func reached(t *txmgr.Transaction, until txmgr.Status) bool {
	return t.Status.Ended() || t.Status.Rank() >= until.Rank()
}

// await waits for a transaction, with a place of its tenant's. ErrBusy if there is none.
func (s *Server) await(ctx context.Context, id string, until txmgr.Status, limit time.Duration) (*txmgr.Transaction, error) {
	tenant := caller(ctx).Tenant
	giveBack := s.waits.Take(tenant)
	if giveBack == nil {
		return nil, rest.ErrBusy
	}
	defer giveBack()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(s.Stopping(ctx), cancel)
	defer stop()
	return s.Manager.Wait(ctx, tenant, id, until)
}

// see shows a transaction, when it has come as far as was asked for.
func (s *Server) see(ctx context.Context, in *byID) (*one, error) {
	until, limit, err := in.until()
	if err != nil {
		return nil, err
	}
	var full *txmgr.Transaction
	if until == "" {
		full, err = s.Manager.Get(ctx, caller(ctx).Tenant, in.ID)
	} else {
		full, err = s.await(ctx, in.ID, until, limit)
	}
	if err != nil {
		return nil, err
	}
	return &one{Status: http.StatusOK, Body: viewTransaction(full)}, nil
}

func (s *Server) batch(ctx context.Context, in *batchInput) (*list, error) {
	if len(in.Body) > s.cfg.Batch {
		return nil, &txmgr.InvalidError{Field: "", Problem: fmt.Sprintf("more than %d transactions", s.cfg.Batch)}
	}
	requests := make([]txmgr.Request, 0, len(in.Body))
	for _, body := range in.Body {
		requests = append(requests, body.request(caller(ctx).Tenant, ""))
	}
	intents, err := s.Manager.SubmitBatch(ctx, in.Key, requests)
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
	p := s.Problem(ctx, err)
	if who := caller(ctx); who.Tenant == "" || who.Tenant == earlier.Tenant {
		p.ID = earlier.ID
	}
	return p
}

func (s *Server) find(ctx context.Context, in *findInput) (*list, error) {
	q := txmgr.Query{
		Tenant: caller(ctx).Tenant, Chain: in.chain(), Hash: hashName(in.Hash), Key: in.Key, Signer: in.Signer, Status: txmgr.Status(in.Status), Cursor: in.Cursor, Limit: in.Limit,
	}
	if in.Nonce != "" {
		n, err := parseQuantity(in.Nonce)
		if err != nil || !n.IsUint64() {
			return nil, &txmgr.InvalidError{Field: "nonce", Problem: "want a number"}
		}
		nonce := n.Uint64()
		q.Nonce = &nonce
	}
	if q.Signer != "" {
		var err error
		if q.Signer, err = s.Manager.Account(q.Chain, q.Signer); err != nil {
			return nil, err
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
