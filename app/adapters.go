package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/url"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/ethapi"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/pending"
	"lockstep/internal/secret"
	"lockstep/mirror"
	"lockstep/rpc"
	"lockstep/submit"
	"lockstep/txmgr/client"
)

// chain answers the submitter's questions from the mirror node.
type chain struct {
	mirror        *mirror.Client
	bufferPercent int
}

// Account implements submit.Chain.
func (c chain) Account(ctx context.Context, address common.Address) (submit.Account, bool, error) {
	account, err := c.mirror.Account(mirror.ForSend(ctx), address)
	if errors.Is(err, mirror.ErrNotFound) {
		return submit.Account{}, false, nil
	}
	if err != nil {
		return submit.Account{}, false, upstreamError(err)
	}
	found := submit.Account{
		Balance: account.Balance, BalanceUnknown: !account.BalanceKnown, SignatureRequired: account.ReceiverSignature,
	}
	if account.Nonce != nil {
		found.Nonce = *account.Nonce
	}
	return found, true, nil
}

// GasPrice implements submit.Chain.
func (c chain) GasPrice(ctx context.Context) (*big.Int, error) {
	fees, err := c.mirror.Fees(mirror.ForSend(ctx))
	switch {
	case errors.Is(err, mirror.ErrNotFound), err == nil && fees.EthereumTransaction <= 0:
		return nil, eth.ErrNoGasPrice
	case err != nil:
		return nil, upstreamError(err)
	}
	price := fees.EthereumTransaction
	// Whole tinybars, rounded half up.
	price += (price*hedera.Tinybar(c.bufferPercent) + 50) / 100
	return price.Weibar(), nil
}

// Record implements submit.Chain.
func (c chain) Record(ctx context.Context, id hedera.TransactionID) (submit.Record, error) {
	result, err := c.mirror.ContractResultByID(mirror.ForSend(ctx), id)
	switch {
	case errors.Is(err, mirror.ErrNotFound):
		return submit.RecordOpen, nil
	case err != nil:
		return submit.RecordOpen, err
	case result.Ran():
		return submit.RecordRan, nil
	case result.Complete():
		return submit.RecordInBlock, nil
	case result.NotRun():
		return submit.RecordRefused, nil
	default:
		return submit.RecordOpen, nil
	}
}

// Changed implements submit.Chain.
func (c chain) Changed(common.Address) { c.mirror.Invalidate() }

// nodes is the consensus client as the submitter wants it.
type nodes struct{ client *consensus.Client }

// Submit implements submit.Nodes.
func (n nodes) Submit(ctx context.Context, s consensus.Submission) (submit.Pending, error) {
	pending, err := n.client.Submit(ctx, s)
	if err != nil {
		return nil, err // a nil *Pending must not become a non-nil interface
	}
	return pending, nil
}

// OfferAgain implements submit.Nodes.
func (n nodes) OfferAgain(ctx context.Context, s consensus.Submission, p submit.Pending) bool {
	pending, ok := p.(*consensus.Pending)
	return ok && n.client.OfferAgain(ctx, s, pending)
}

// Knows implements submit.Nodes.
func (n nodes) Knows(ctx context.Context, id hedera.TransactionID, node hedera.ID) (bool, error) {
	_, err := n.client.ReceiptAt(ctx, id, node)
	switch {
	case err == nil, errors.Is(err, consensus.ErrInProgress):
		return true, nil
	case errors.Is(err, consensus.ErrUnknownID):
		return false, nil
	default:
		return false, err
	}
}

// StoreFile implements submit.Files.
func (n nodes) StoreFile(ctx context.Context, sender common.Address, contents []byte, chunk int) (submit.File, error) {
	file, err := n.client.StoreFile(ctx, sender, contents, chunk)
	if file == nil {
		return nil, err // a nil *File must not become a non-nil interface
	}
	return file, err
}

// Await implements submit.Nodes. That a transaction is past its validity is a
// verdict, too: it cannot be executed any more.
func (n nodes) Await(ctx context.Context, id hedera.TransactionID, node hedera.ID) error {
	_, err := n.client.Pending(id, node).Receipt(ctx)
	if errors.Is(err, consensus.ErrReceiptNotFound) || errors.Is(err, consensus.ErrReceiptExpired) {
		return nil
	}
	return err
}

// upstreamError says what a client may know of a failed look-up.
func upstreamError(err error) error {
	if failed, ok := errors.AsType[*mirror.Error](err); ok {
		return eth.ErrUpstream(failed.Status, failed.Message)
	}
	return err
}

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
			call.Chain = cmp.Or(call.Chain, relayChain(jsonx.Value(call.ChainID)))
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

// mirrorReceipts tells from the mirror node what became of a transaction.
func mirrorReceipts(m *mirror.Client) consensus.ReceiptSource {
	return func(ctx context.Context, id hedera.TransactionID) (*consensus.Receipt, error) {
		found, err := m.Transactions(mirror.ForSend(ctx), id)
		if errors.Is(err, mirror.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, t := range found {
			status, known := hedera.ParseStatus(t.Result)
			// What came second under the id says nothing about the first.
			if !known || t.Nonce != 0 || t.Scheduled || status == hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION {
				continue
			}
			receipt := &consensus.Receipt{TransactionID: id, Status: status}
			if t.Name == "FILECREATE" {
				receipt.File = t.Entity
			}
			return receipt, nil
		}
		return nil, nil
	}
}

// sender takes raw transactions: the submitter, or what stands before it where a
// transaction manager sends from accounts of its own.
func (a *App) sender() ethapi.Sender {
	if len(a.cfg.Server.ManagedSigners) == 0 {
		return a.submitter
	}
	m := managed{Sender: a.submitter, accounts: map[common.Address]bool{}}
	for _, text := range a.cfg.Server.ManagedSigners {
		m.accounts[common.HexToAddress(text)] = true
	}
	return m
}

// managed refuses transactions of accounts whose nonces somebody else gives out. It costs
// every transaction a recovery of its sender, so it stands there only when it is needed.
type managed struct {
	ethapi.Sender
	accounts map[common.Address]bool
}

// Enter implements ethapi.Sender.
func (m managed) Enter(raw []byte) (*submit.Entry, error) {
	if tx, err := eth.DecodeTx(raw); err == nil && m.accounts[tx.From()] {
		return nil, eth.ErrManaged(tx.From())
	}
	return m.Sender.Enter(raw)
}

// openPool makes the transaction pool and the lifecycle record, which may be off. Subscribers
// hear of accepted transactions all the same.
func (a *App) openPool() (err error) {
	a.pool, a.promises, a.trace = pending.Disabled(a.accepted), pending.NoPromises(), lifecycle.Disabled()
	if a.cfg.Pool.Enabled {
		a.pool = pending.New(a.cfg.Pool, pending.Deps{
			Redis: a.redis, Bodies: a.cfg.RPC.Profile == rpc.ProfileEthereum, Announce: a.accepted,
			AnsweredEarly: a.cfg.Submit.Async || a.cfg.Submit.Returns == submit.ReturnsAccepted,
		})
	}
	if a.redis != nil && a.cfg.Submit.Async && !a.cfg.Submit.ReadOnly {
		a.promises = pending.NewPromises(a.cfg.Pool, a.redis, a.cfg.Lock.Promise.Duration(), a.log)
	}
	if a.cfg.Trace.Enabled {
		a.trace, err = lifecycle.New(a.cfg.Trace, a.redis)
	}
	return err
}

// takeOver goes on with what a relay that died has promised.
func (a *App) takeOver(p pending.Promised) bool { return a.submitter.TakeOver(p.Tx, p.Until) }
