package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/internal/secret"
	"lockstep/rpc"
	"lockstep/txmgr/client"
)

// relayCall is the one parameter of the methods relay_*: an intent, or the id of one, with
// the caller's own key of the transaction manager.
type relayCall struct {
	client.Intent
	ChainID        json.RawMessage `json:"chainId"` // another word for chain
	ID             string          `json:"id"`
	IdempotencyKey string          `json:"idempotencyKey"`
	APIKey         secret.String   `json:"apiKey"`
}

// managerMethods are the methods that a transaction manager answers, if the settings name one.
// The relay lends nobody a key: whoever calls needs one of the manager's own.
func (a *App) managerMethods() []rpc.Method {
	if a.cfg.Server.ManagerURL == "" {
		return nil
	}
	manager := client.New(a.cfg.Server.ManagerURL, "")
	method := func(name string, ask func(context.Context, *client.Client, relayCall) (any, error)) rpc.Method {
		return rpc.Method{Name: name, AnyParams: true, Handler: func(ctx context.Context, p *rpc.Params) (any, error) {
			var call relayCall
			if p.Len() != 1 || !p.At(0).IsObject() || p.At(0).Decode(&call) != nil {
				return nil, eth.ErrInvalidParam(0, "want an object")
			}
			request, _ := rpc.FromContext(ctx)
			answer, err := ask(ctx, manager.For(call.APIKey, request.IP), call)
			return answer, managerError(err)
		}}
	}
	return []rpc.Method{
		method("relay_sendTransaction", func(ctx context.Context, c *client.Client, call relayCall) (any, error) {
			if call.Chain == "" {
				call.Chain = relayChain(jsonx.Value(call.ChainID))
			}
			return c.Send(ctx, call.Intent, client.Options{Key: call.IdempotencyKey})
		}),
		method("relay_getStatus", func(ctx context.Context, c *client.Client, call relayCall) (any, error) {
			var tx json.RawMessage
			err := c.Call(ctx, http.MethodGet, "/v1/transactions/"+url.PathEscape(call.ID), "", nil, &tx)
			return tx, err
		}),
		method("relay_cancel", func(ctx context.Context, c *client.Client, call relayCall) (any, error) {
			return c.Cancel(ctx, call.ID)
		}),
	}
}

// relayChain reads a chain's id that may be text or a number.
func relayChain(id jsonx.Value) string {
	switch {
	case id.IsString():
		return id.Text()
	case id.Given():
		return string(id)
	default:
		return ""
	}
}

// managerError is what a client of the relay is told of the manager's answer.
func managerError(err error) error {
	var p *client.Problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return eth.ErrInvalidArguments("%s: %s", p.Code, p.Detail)
	default:
		return eth.ErrInternal("The transaction manager does not answer")
	}
}
