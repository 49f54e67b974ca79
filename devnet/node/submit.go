package node

import (
	"context"
	"crypto/sha512"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/sleep"
)

// Limits on a submission.
const (
	maxSize       = 6_144   // bytes of a whole transaction
	maxJumboSize  = 133_120 // of an Ethereum transaction, or of any by a privileged payer
	maxSignatures = 256
	minDuration   = 15 // seconds
	maxDuration   = 180
	expiryMargin  = 10 * time.Second // a transaction must still be valid when it reaches consensus
)

const ok = hapi.ResponseCodeEnum_OK

// Node is one consensus node: it checks what clients submit and answers their
// queries. It is safe for concurrent use.
type Node struct {
	index   int
	account hedera.ID
	ledger  *ledger.Ledger
	gossip  *gossip
	fault   func(Call) Fault
	seen    *seen
	log     *slog.Logger

	acceptor    *acceptor
	certificate *certificate // nil: no TLS
}

// Account returns the account of the node.
func (n *Node) Account() hedera.ID { return n.account }

// Submit checks a transaction and, when nothing is wrong with it, sends it on its
// way to consensus. The error is a gRPC status; only faults and an ended context
// cause one.
func (n *Node) Submit(ctx context.Context, tx *hapi.Transaction) (*hapi.TransactionResponse, error) {
	sub, code := n.precheck(tx)
	fault, err := n.spoil(ctx, sub, nil)
	if err != nil {
		return nil, err
	}
	if fault.Status != 0 {
		code = fault.Status
	}
	response := &hapi.TransactionResponse{NodeTransactionPrecheckCode: code}
	if code == hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE {
		response.Cost = uint64(n.ledger.Fee(sub))
	}
	if code != ok {
		return response, nil
	}
	if err := n.ledger.Prepare(sub); err != nil { // nothing was taken: the client may try again
		n.log.Warn("a transaction was refused", "transaction", sub.ID.String(), "error", err.Error())
		return &hapi.TransactionResponse{NodeTransactionPrecheckCode: hapi.ResponseCodeEnum_BUSY}, nil
	}
	sub.Refusal = fault.Outcome
	switch {
	case fault.Lose:
	case !n.seen.add(sub.ID, expiry(sub)):
		response.NodeTransactionPrecheckCode = hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION
	case fault.Vanish:
	case !n.gossip.accept(n.index, sub):
		n.seen.remove(sub.ID)
		response.NodeTransactionPrecheckCode = hapi.ResponseCodeEnum_BUSY
	}
	if fault.DropAfter {
		return nil, status.Error(codes.Unavailable, "the connection was lost after the transaction was taken")
	}
	return response, nil
}

func expiry(sub *core.Submission) time.Time {
	return sub.ID.ValidStart.Time().Add(time.Duration(sub.Body.GetTransactionValidDuration().GetSeconds()) * time.Second)
}

// Decode opens the envelope of a transaction: two levels of protobuf and the
// signatures over the inner one. It checks form only.
func Decode(tx *hapi.Transaction) (*core.Submission, hedera.Status) {
	outer := tx.GetSignedTransactionBytes()
	size := proto.Size(tx)
	switch {
	case size > maxJumboSize:
		return nil, hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE
	case len(outer) == 0, hasDeprecated(tx):
		return nil, hapi.ResponseCodeEnum_INVALID_TRANSACTION
	}
	signed := new(hapi.SignedTransaction)
	if proto.Unmarshal(outer, signed) != nil || len(signed.GetBodyBytes()) == 0 {
		return nil, hapi.ResponseCodeEnum_INVALID_TRANSACTION
	}
	body := new(hapi.TransactionBody)
	if proto.Unmarshal(signed.GetBodyBytes(), body) != nil {
		return nil, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	}
	pairs := signed.GetSigMap().GetSigPair()
	if len(pairs) > maxSignatures {
		return nil, hapi.ResponseCodeEnum_INVALID_TRANSACTION
	}
	sub := &core.Submission{
		Body: body, Hash: sha512.Sum384(outer), Size: size,
		Signatures: hapikey.NewSignatures(signed.GetBodyBytes(), pairs),
	}
	id, code := transactionID(body.GetTransactionID())
	sub.ID, sub.Payer = id, id.Payer
	return sub, code
}

// hasDeprecated tells whether the envelope uses one of its old forms beside the new.
func hasDeprecated(tx *hapi.Transaction) bool {
	m := tx.ProtoReflect()
	for _, number := range []protoreflect.FieldNumber{1, 3, 4} {
		if m.Has(m.Descriptor().Fields().ByNumber(number)) {
			return true
		}
	}
	return false
}

func transactionID(id *hapi.TransactionID) (hedera.TransactionID, hedera.Status) {
	var out hedera.TransactionID
	start, payer := id.GetTransactionValidStart(), id.GetAccountID()
	switch {
	case start == nil || payer == nil, start.GetNanos() < 0 || start.GetNanos() > 999_999_999, start.GetSeconds() < 0:
		return out, hapi.ResponseCodeEnum_INVALID_TRANSACTION_ID
	case id.GetScheduled() || id.GetNonce() != 0:
		return out, hapi.ResponseCodeEnum_TRANSACTION_ID_FIELD_NOT_ALLOWED
	case payer.GetAlias() != nil || payer.GetAccountNum() <= 0:
		return out, hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND
	}
	out.Payer = hedera.ID{Shard: payer.GetShardNum(), Realm: payer.GetRealmNum(), Num: payer.GetAccountNum()}
	out.ValidStart = hedera.Timestamp{Seconds: start.GetSeconds(), Nanos: start.GetNanos()}
	return out, ok
}

// precheck is everything a node looks at before it accepts a transaction, in the
// network's order, which decides the status of one with several faults.
func (n *Node) precheck(tx *hapi.Transaction) (*core.Submission, hedera.Status) {
	sub, code := Decode(tx)
	if sub == nil {
		return nil, code
	}
	body := sub.Body
	if !privileged(sub.Payer) && body.GetEthereumTransaction() == nil && sub.Size > maxSize {
		return sub, hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE
	}
	if code != ok {
		return sub, code
	}
	sub.Node = n.account
	for _, check := range []func(*core.Submission) hedera.Status{
		envelope, n.addressed, timely, n.duplicate, n.pure, n.payer,
	} {
		if code := check(sub); code != ok {
			return sub, code
		}
	}
	if e := body.GetEthereumTransaction(); e != nil && e.GetCallData() == nil {
		// One whose signature leads to no sender is refused at consensus, not here.
		if tx, err := eth.DecodeTx(e.GetEthereumData()); err == nil {
			sub.Ethereum = tx
		}
	}
	return sub, ok
}

// privileged payers may send large transactions of any kind.
func privileged(payer hedera.ID) bool {
	return payer.Num == 2 || payer.Num >= 42 && payer.Num <= 799
}

func envelope(sub *core.Submission) hedera.Status {
	body := sub.Body
	duration := body.GetTransactionValidDuration().GetSeconds()
	if status := core.ValidMemo(body.GetMemo()); status != done {
		return status
	}
	switch {
	case int64(body.GetTransactionFee()) < 0:
		return hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE
	case duration < minDuration || duration > maxDuration:
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_DURATION
	case body.GetBatchKey() != nil:
		return hapi.ResponseCodeEnum_BATCH_KEY_SET_ON_NON_INNER_TRANSACTION
	}
	return ok
}

// addressed checks that the transaction was made for this node.
func (n *Node) addressed(sub *core.Submission) hedera.Status {
	id := sub.Body.GetNodeAccountID()
	if id.GetShardNum() != 0 || id.GetRealmNum() != 0 || id.GetAccountNum() != n.account.Num {
		return hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT
	}
	return ok
}

func timely(sub *core.Submission) hedera.Status {
	now := time.Now()
	switch {
	case sub.ID.ValidStart.Time().After(now):
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_START
	case expiry(sub).Add(-expiryMargin).Before(now):
		return hapi.ResponseCodeEnum_TRANSACTION_EXPIRED
	}
	return ok
}

func (n *Node) duplicate(sub *core.Submission) hedera.Status {
	if n.seen.has(sub.ID) || len(n.ledger.Handled().RecordsByID(sub.ID)) > 0 {
		return hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION
	}
	return ok
}

func (n *Node) pure(sub *core.Submission) hedera.Status {
	if sub.Body.GetData() == nil && len(sub.Body.ProtoReflect().GetUnknown()) == 0 {
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	}
	if code := n.ledger.PureCheck(sub.Body); code != hapi.ResponseCodeEnum_SUCCESS {
		return code
	}
	return ok
}

// payer checks that the payer exists and has signed.
func (n *Node) payer(sub *core.Submission) hedera.Status {
	payer, found := n.ledger.Handled().Account(sub.Payer)
	switch {
	case !found || payer.IsContract():
		return hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND
	case payer.Deleted:
		return hapi.ResponseCodeEnum_PAYER_ACCOUNT_DELETED
	case sub.Signatures.AmbiguousPrefix():
		return hapi.ResponseCodeEnum_KEY_PREFIX_MISMATCH
	}
	signed := sub.Signatures.Signed(payer.Key)
	if payer.IsHollow() {
		_, signed = sub.Signatures.Completes(payer.Address)
	}
	if !signed {
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return affordable(sub.Body, n.ledger.Fee(sub), payer.Balance)
}

// affordable checks the offer against what is asked, and the balance against both
// that and what the payer adds for gas.
func affordable(body *hapi.TransactionBody, fee, balance hedera.Tinybar) hedera.Status {
	need := fee
	if e := body.GetEthereumTransaction(); e != nil {
		need += hedera.Tinybar(min(max(e.GetMaxGasAllowance(), 0), 1<<61))
	}
	switch {
	case body.GetTransactionFee() < uint64(fee):
		return hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE
	case balance < need:
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	}
	return ok
}

// Call is a call at a node that a fault may spoil. One of the pointers is set; for
// a transaction that could not be decoded neither is.
type Call struct {
	Node       int // index of the node
	Submission *core.Submission
	Query      *hapi.Query
}

// Fault is how to spoil a call. The zero value leaves it alone.
type Fault struct {
	Delay      time.Duration // before anything happens
	DropBefore bool          // the connection breaks and nothing was taken
	Code       codes.Code    // answered with this error of gRPC; nothing is taken
	Status     hedera.Status // answered instead of the node's own precheck; the transaction is not taken, the query not answered
	Vanish     bool          // answered OK, and consensus never sees it
	Outcome    hedera.Status // answered OK, and consensus refuses it with this
	Lose       bool          // answered OK by a node that is killed before it passes it on: no node knows it afterwards
	DropAfter  bool          // taken, and then the connection breaks
	GoAway     bool          // before anything happens, the node sends its clients away; this call is finished
}

// spoil asks for the fault of a call and applies what comes before it.
func (n *Node) spoil(ctx context.Context, sub *core.Submission, query *hapi.Query) (Fault, error) {
	if n.fault == nil {
		return Fault{}, nil
	}
	fault := n.fault(Call{Node: n.index, Submission: sub, Query: query})
	if fault.GoAway {
		n.acceptor.goAway()
	}
	if fault.Delay > 0 && !sleep.For(ctx, fault.Delay) {
		return fault, status.FromContextError(ctx.Err()).Err()
	}
	if fault.DropBefore {
		return fault, status.Error(codes.Unavailable, "the connection was lost")
	}
	if fault.Code != codes.OK {
		return fault, status.Error(fault.Code, "a fault")
	}
	return fault, nil
}
