package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/big"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"lockstep/internal/access"
	"lockstep/txmgr"
)

// The older spelling: bodies and answers as its callers know them, byte for byte. Errors
// have the member "error", a word for programs.

const maxOlderBody = 1 << 20

type olderAccount struct {
	Address   string  `json:"address"`
	NetworkID ChainID `json:"networkId"`
	RequestID string  `json:"requestId,omitempty" doc:"Of lock."`
	LockID    string  `json:"lockId,omitempty" doc:"Of unlock, which needs it."`
	Nonce     *Number `json:"nonce,omitempty" doc:"Of recycle, which needs it."`
}

type olderSend struct {
	From      string    `json:"from,omitempty"`
	To        string    `json:"to,omitempty"`
	Value     *Quantity `json:"value,omitempty"`
	Data      Bytes     `json:"data,omitempty"`
	GasLimit  Number    `json:"gasLimit,omitempty"`
	NetworkID ChainID   `json:"networkId"`

	IdempotencyKey string `json:"idempotencyKey,omitempty" maxLength:"256" doc:"Like the header Idempotency-Key, which wins."`
}

// header takes an idempotency key over that the call has in its header.
func (o *olderSend) header(h http.Header) {
	if key := h.Get("Idempotency-Key"); key != "" {
		o.IdempotencyKey = key
	}
}

type olderRaw struct {
	NetworkID ChainID `json:"networkId"`
	RawTx     Bytes   `json:"rawTx"`
}

type olderNetwork struct {
	NetworkID ChainID `json:"networkId"`
}

type olderNonce struct {
	Nonce uint64 `json:"nonce"`
}

type olderLock struct {
	Nonce  uint64 `json:"nonce"`
	LockID string `json:"lockId"`
}

// olderFee has the names of ethers' FeeData; null where the chain has no such thing.
type olderFee struct {
	GasPrice             *string `json:"gasPrice"`
	MaxFeePerGas         *string `json:"maxFeePerGas"`
	MaxPriorityFeePerGas *string `json:"maxPriorityFeePerGas"`
}

type olderHash struct {
	TxHash string `json:"txHash"`
}

type olderSent struct {
	TxHash *string `json:"txHash"`
	ID     string  `json:"id"`
}

type olderConflict struct {
	Error          string `json:"error"`
	CurrentNonce   uint64 `json:"currentNonce"`
	AttemptedNonce uint64 `json:"attemptedNonce"`
	ShouldRetry    bool   `json:"shouldRetry"`
}

type olderError struct {
	Error   string `json:"error"`
	Message string `json:"message"`
}

func (s *Server) older(mux *http.ServeMux) {
	olderCall(s, mux, "/evm/address/nonce", "olderNonce", "Reserve the next nonce of an account", olderNonce{}, s.olderNonce)
	olderCall(s, mux, "/evm/address/nonce/recycle", "olderRecycle", "Give a nonce back that was not used", recycled{}, s.olderRecycle)
	olderCall(s, mux, "/evm/address/nonce/lock", "olderLock", "Have an account alone, with its next nonce", olderLock{}, s.olderLock)
	olderCall(s, mux, "/evm/address/nonce/unlock", "olderUnlock", "End a lock", unlocked{}, s.olderUnlock)
	olderCall(s, mux, "/evm/getCurrentFee", "olderFee", "What a transaction costs now", olderFee{}, s.olderFee)
	raw := olderCall(s, mux, "/evm/transaction/sendRaw", "olderSendRaw", "Hand over a transaction that the caller signed", olderHash{}, s.olderRaw)
	raw.Responses["409"] = &huma.Response{Description: "The nonce is not the one that can be used", Content: s.olderContent(olderConflict{})}
	olderCall(s, mux, "/evm/transaction/send", "olderSend", "Hand over an intent", olderSent{}, s.olderSend)
	op := s.describeOlder(access.RoleRead, http.MethodGet, "/evm/nonce/health", "olderHealth", "What an account's nonces look like", NonceState{})
	for _, name := range []string{"networkId", "address"} {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "query", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	mux.HandleFunc("GET /evm/nonce/health", func(w http.ResponseWriter, r *http.Request) {
		if err := access.Allowed(r.Context(), access.RoleRead); err != nil {
			s.failOlder(w, r, err)
			return
		}
		query := r.URL.Query()
		h, err := inTurn(r.Context(), s, s.nonceHealth, chainName(query.Get("networkId")), query.Get("address"), answered[Health])
		if err != nil {
			s.failOlder(w, r, err)
			return
		}
		writeOlder(w, http.StatusOK, h.Body.NonceState)
	})
}

// olderCall adds a call with a body to the mux, and to the document.
func olderCall[In any](s *Server, mux *http.ServeMux, path, id, summary string, out any, handle func(context.Context, In) (any, error)) *huma.Operation {
	var in In
	op := s.describeOlder(access.RoleSend, http.MethodPost, path, id, summary, out)
	op.RequestBody = &huma.RequestBody{Required: true, Content: s.olderContent(in)}
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { answerOlder(s, w, r, access.RoleSend, handle) })
	return op
}

// describeOlder adds a call to the document. The library serves none of them: their errors have a form of their own.
func (s *Server) describeOlder(role access.Role, method, path, id, summary string, out any) *huma.Operation {
	op := operation(role, method, path, id, summary)
	op.Tags = []string{"older"}
	op.Responses = map[string]*huma.Response{
		"200":     {Description: "OK", Content: s.olderContent(out)},
		"default": {Description: "Error", Content: s.olderContent(olderError{})},
	}
	s.api.OpenAPI().AddOperation(&op)
	return &op
}

func (s *Server) olderContent(of any) map[string]*huma.MediaType {
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(of), true, "")
	if member := s.api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref); member != nil {
		member.AdditionalProperties = true // members that nobody knows are passed over, and answers may get more
	}
	return map[string]*huma.MediaType{"application/json": {Schema: schema}}
}

// answerOlder reads a body, asks, and writes the answer.
func answerOlder[In any](s *Server, w http.ResponseWriter, r *http.Request, role access.Role, handle func(context.Context, In) (any, error)) {
	if err := access.Allowed(r.Context(), role); err != nil {
		s.failOlder(w, r, err)
		return
	}
	in, err := decodeOlder[In](http.MaxBytesReader(w, r.Body, maxOlderBody))
	if err != nil {
		s.failOlder(w, r, err)
		return
	}
	if takes, ok := any(&in).(interface{ header(h http.Header) }); ok {
		takes.header(r.Header)
	}
	out, err := handle(r.Context(), in)
	if err != nil {
		s.failOlder(w, r, err)
		return
	}
	writeOlder(w, http.StatusOK, out)
}

// decodeOlder reads one JSON object. Members that nobody knows are passed over.
func decodeOlder[In any](body io.Reader) (In, error) {
	var in In
	raw, err := io.ReadAll(body)
	if err != nil {
		return in, &txmgr.InvalidError{Field: "body", Problem: "too large, or broken off"}
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return in, &txmgr.InvalidError{Field: "body", Problem: "not the JSON that this call takes"}
	}
	return in, nil
}

func writeOlder(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil { // plain structs: never
		status, text = http.StatusInternalServerError, []byte(`{"error":"INTERNAL","message":""}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // who is gone needs no answer
}

func (s *Server) failOlder(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problem(r.Context(), err)
	maps.Copy(w.Header(), p.GetHeaders())
	if p.CurrentNonce != nil {
		writeOlder(w, p.Status, olderConflict{p.Code, *p.CurrentNonce, *p.AttemptedNonce, *p.ShouldRetry})
		return
	}
	writeOlder(w, p.Status, olderError{p.Code, p.Detail})
}

func (s *Server) olderNonce(ctx context.Context, in olderAccount) (any, error) {
	r, err := inTurn(ctx, s, s.Manager.Acquire, string(in.NetworkID), in.Address, viewReservation)
	if err != nil {
		return nil, err
	}
	return olderNonce{r.Body.Nonce}, nil
}

func (s *Server) olderRecycle(ctx context.Context, in olderAccount) (any, error) {
	if in.Nonce == nil {
		return nil, &txmgr.InvalidError{Field: "nonce", Problem: "missing"}
	}
	done, err := s.Manager.RecycleNonce(ctx, caller(ctx).Tenant, string(in.NetworkID), in.Address, uint64(*in.Nonce))
	return recycled{done}, err
}

func (s *Server) olderLock(ctx context.Context, in olderAccount) (any, error) {
	r, err := inTurn(ctx, s, s.Manager.Lock, string(in.NetworkID), in.Address, viewReservation)
	if err != nil {
		return nil, err
	}
	return olderLock{r.Body.Nonce, r.Body.LockID}, nil
}

func (s *Server) olderUnlock(ctx context.Context, in olderAccount) (any, error) {
	done, err := s.Manager.Unlock(ctx, caller(ctx).Tenant, string(in.NetworkID), in.Address, in.LockID)
	return unlocked{done}, err
}

func (s *Server) olderFee(ctx context.Context, in olderNetwork) (any, error) {
	market, err := s.Manager.Fees(ctx, string(in.NetworkID))
	if err != nil {
		return nil, err
	}
	text := func(n *big.Int) *string {
		if n == nil {
			return nil
		}
		digits := n.String()
		return &digits
	}
	fees := market.Tips[txmgr.SpeedStandard]
	if market.BaseFee == nil || fees.Tip == nil {
		return olderFee{GasPrice: text(fees.Max)}, nil
	}
	return olderFee{GasPrice: text(new(big.Int).Add(market.BaseFee, fees.Tip)), MaxFeePerGas: text(fees.Max), MaxPriorityFeePerGas: text(fees.Tip)}, nil
}

func (s *Server) olderRaw(ctx context.Context, in olderRaw) (any, error) {
	intent, err := s.Manager.Raw(ctx, txmgr.RawRequest{Tenant: caller(ctx).Tenant, Chain: string(in.NetworkID), Origin: "raw", Raw: in.RawTx, RawSlot: txmgr.RawSlot{NoIDs: true}})
	if errors.Is(err, txmgr.ErrDuplicate) && intent != nil {
		err = nil // the same bytes again: the same answer
	}
	if err != nil {
		return nil, err
	}
	return olderHash{intent.Hash}, nil
}

// olderSendWait is how long the older call waits for the hash of its transaction.
const olderSendWait = 20 * time.Second

func (s *Server) olderSend(ctx context.Context, in olderSend) (any, error) {
	intent, err := s.Manager.Submit(ctx, txmgr.Request{
		Tenant: caller(ctx).Tenant, Chain: string(in.NetworkID), Origin: "older", IdempotencyKey: in.IdempotencyKey, To: in.To, Value: in.Value.value(), Data: in.Data, Gas: uint64(in.GasLimit), Pin: in.From,
	})
	if err != nil {
		return nil, err
	}
	full := s.watch(ctx, intent, txmgr.StatusBroadcast, olderSendWait)
	out := olderSent{ID: full.ID}
	if full.Hash != "" {
		out.TxHash = &full.Hash
	}
	return out, nil
}
