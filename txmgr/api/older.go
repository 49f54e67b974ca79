package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/txmgr"
)

// The older spelling: bodies and answers as its callers know them, byte for byte. Errors
// have the member "error", a word for programs.

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
	olderStatus
	Code           string `json:"error"`
	CurrentNonce   uint64 `json:"currentNonce"`
	AttemptedNonce uint64 `json:"attemptedNonce"`
	ShouldRetry    bool   `json:"shouldRetry"`
}

type olderError struct {
	olderStatus
	Code    string `json:"error"`
	Message string `json:"message"`
}

func (s *Server) older() {
	olderCall(s, "/evm/address/nonce", "olderNonce", "Reserve the next nonce of an account", s.olderNonce)
	olderCall(s, "/evm/address/nonce/recycle", "olderRecycle", "Give a nonce back that was not used", s.olderRecycle)
	olderCall(s, "/evm/address/nonce/lock", "olderLock", "Have an account alone, with its next nonce", s.olderLock)
	olderCall(s, "/evm/address/nonce/unlock", "olderUnlock", "End a lock", s.olderUnlock)
	olderCall(s, "/evm/getCurrentFee", "olderFee", "What a transaction costs now", s.olderFee)
	olderCall(s, "/evm/transaction/sendRaw", "olderSendRaw", "Hand over a transaction that the caller signed", s.olderRaw)
	s.API.OpenAPI().Paths["/evm/transaction/sendRaw"].Post.Responses["409"] = &huma.Response{Description: "The nonce is not the one that can be used", Content: s.olderContent(olderConflict{})}
	olderCall(s, "/evm/transaction/send", "olderSend", "Hand over an intent", s.olderSend)
	rest.Register(s.Server, s.olderOperation(access.RoleRead, http.MethodGet, "/evm/nonce/health", "olderHealth", "What an account's nonces look like"), func(ctx context.Context, in *struct {
		NetworkID string `query:"networkId" required:"true"`
		Address   string `query:"address" required:"true"`
	},
	) (*rest.Out[NonceState], error) {
		h, err := inTurn(ctx, s, s.nonceHealth, chainName(in.NetworkID), in.Address, rest.Answered[Health])
		if err != nil {
			return nil, err
		}
		return &rest.Out[NonceState]{Body: h.Body.NonceState}, nil
	})
}

// olderCall adds a call. It reads the body itself: older callers send members that nobody knows, and name any type or none.
func olderCall[In, Out any](s *Server, path, id, summary string, handle func(context.Context, In) (Out, error)) {
	op := s.olderOperation(access.RoleSend, http.MethodPost, path, id, summary)
	var none In
	op.RequestBody = &huma.RequestBody{Required: true, Content: s.olderContent(none)}
	rest.Register(s.Server, op, func(ctx context.Context, in *struct {
		Key     string `header:"Idempotency-Key" hidden:"true"`
		RawBody []byte
	},
	) (*rest.Out[Out], error) {
		var body In
		if err := json.Unmarshal(in.RawBody, &body); err != nil {
			return nil, &txmgr.InvalidError{Field: "body", Problem: "not the JSON that this call takes"}
		}
		if sends, ok := any(&body).(*olderSend); ok {
			sends.IdempotencyKey = cmp.Or(in.Key, sends.IdempotencyKey)
		}
		return rest.Answered(handle(ctx, body))
	})
}

func (s *Server) olderOperation(role access.Role, method, path, id, summary string) huma.Operation {
	op := s.Operation(role, method, path, id, summary)
	op.Tags, op.Errors, op.Metadata[rest.Form] = []string{"older"}, nil, spellOlder
	op.Responses = map[string]*huma.Response{"default": {Description: "Error", Content: s.olderContent(olderError{})}}
	return op
}

func (s *Server) olderContent(of any) map[string]*huma.MediaType {
	schema := s.API.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(of), true, "")
	s.API.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref).AdditionalProperties = true // members that nobody knows are passed over, and answers may get more
	return map[string]*huma.MediaType{"application/json": {Schema: schema}}
}

// spellOlder is a problem in the older spelling, to which a body that cannot be read is like any other that is wrong.
func spellOlder(p *rest.Problem) huma.StatusError {
	status := p.Status
	if p.Code == "INVALID" {
		status = http.StatusUnprocessableEntity
	}
	if p.CurrentNonce != nil {
		return &olderConflict{olderStatus{status, p.GetHeaders()}, p.Code, *p.CurrentNonce, *p.AttemptedNonce, *p.ShouldRetry}
	}
	return &olderError{olderStatus{status, p.GetHeaders()}, p.Code, p.Detail}
}

// olderStatus makes a body an answer of package huma.
type olderStatus struct {
	status  int
	headers http.Header
}

func (olderStatus) Error() string             { return "" }
func (o olderStatus) GetStatus() int          { return o.status }
func (o olderStatus) GetHeaders() http.Header { return o.headers }

func (s *Server) olderNonce(ctx context.Context, in olderAccount) (*olderNonce, error) {
	r, err := inTurn(ctx, s, s.Manager.Acquire, string(in.NetworkID), in.Address, viewReservation)
	if err != nil {
		return nil, err
	}
	return &olderNonce{r.Body.Nonce}, nil
}

func (s *Server) olderRecycle(ctx context.Context, in olderAccount) (*recycled, error) {
	if in.Nonce == nil {
		return nil, &txmgr.InvalidError{Field: "nonce", Problem: "missing"}
	}
	done, err := s.Manager.RecycleNonce(ctx, caller(ctx).Tenant, string(in.NetworkID), in.Address, uint64(*in.Nonce))
	return &recycled{done}, err
}

func (s *Server) olderLock(ctx context.Context, in olderAccount) (*olderLock, error) {
	r, err := inTurn(ctx, s, s.Manager.Lock, string(in.NetworkID), in.Address, viewReservation)
	if err != nil {
		return nil, err
	}
	return &olderLock{r.Body.Nonce, r.Body.LockID}, nil
}

func (s *Server) olderUnlock(ctx context.Context, in olderAccount) (*unlocked, error) {
	done, err := s.Manager.Unlock(ctx, caller(ctx).Tenant, string(in.NetworkID), in.Address, in.LockID)
	return &unlocked{done}, err
}

func (s *Server) olderFee(ctx context.Context, in olderNetwork) (*olderFee, error) {
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
		return &olderFee{GasPrice: text(fees.Max)}, nil
	}
	return &olderFee{GasPrice: text(new(big.Int).Add(market.BaseFee, fees.Tip)), MaxFeePerGas: text(fees.Max), MaxPriorityFeePerGas: text(fees.Tip)}, nil
}

func (s *Server) olderRaw(ctx context.Context, in olderRaw) (*olderHash, error) {
	intent, err := s.Manager.Raw(ctx, txmgr.RawRequest{Tenant: caller(ctx).Tenant, Chain: string(in.NetworkID), Origin: "raw", Raw: in.RawTx, RawSlot: txmgr.RawSlot{NoIDs: true}})
	if errors.Is(err, txmgr.ErrDuplicate) && intent != nil {
		err = nil // the same bytes again: the same answer
	}
	if err != nil {
		return nil, err
	}
	return &olderHash{intent.Hash}, nil
}

// olderSendWait is how long the older call waits for the hash of its transaction.
const olderSendWait = 20 * time.Second

func (s *Server) olderSend(ctx context.Context, in olderSend) (*olderSent, error) {
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
	return &out, nil
}
