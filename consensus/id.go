package consensus

import (
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const (
	// ValidDuration is how long after its valid start a transaction may reach consensus. The
	// network executes nothing whose consensus time is later. Nodes accept 15 to 180 s.
	ValidDuration = 120 * time.Second

	// startLead is how far in the past the valid start lies, because a node whose
	// clock is behind ours refuses a start in its future.
	startLead = 5 * time.Second

	// skewStep is how far one refusal moves the clock. It is less than the window in
	// which a node accepts a start (ValidDuration less its own 10 s), so stepping never
	// jumps over the window.
	skewStep = 45 * time.Second

	// maxSkew bounds what refusals can do to the clock.
	maxSkew = 10 * time.Minute

	// idStride is the distance between two ids of one process. The digits below it are
	// the process's own, so that relays which share an operator rarely draw the same id.
	idStride = 10_000
)

// idSource draws valid starts that are unique in this process, close to the
// network's clock, and unlikely to be drawn by another process.
type idSource struct {
	mu    sync.Mutex // guards all below
	last  int64      // nanoseconds of the latest valid start
	skew  int64      // nanoseconds to add to the local clock
	digit int64      // 0 … idStride-1: this process's last digits
	hop   int64      // from one choice of last digits to the next
}

func newIDSource() *idSource {
	// A hop that shares no factor with idStride visits all digits before any again.
	hop := 1 + 2*rand.Int64N(idStride/2)
	if hop%5 == 0 {
		hop += 2
	}
	return &idSource{digit: rand.Int64N(idStride), hop: hop}
}

// next draws an id. skew is what the clock was corrected by; adjust wants it back.
func (s *idSource) next(payer hedera.ID, now time.Time) (id hedera.TransactionID, skew int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := max(now.Add(-startLead).UnixNano()+s.skew, s.last+1)
	start += (s.digit - start%idStride + idStride) % idStride
	s.last = start
	return hedera.TransactionID{Payer: payer, ValidStart: hedera.FromNanos(start)}, s.skew
}

// adjust learns from a node that refused the valid start of an id drawn with the
// given skew: it was expired, so the local clock is behind, or in the node's future,
// so it is ahead. Of many refusals of one skew only the first counts.
func (s *idSource) adjust(skew int64, behind bool) {
	step := int64(skewStep)
	if !behind {
		step = -step
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skew != skew {
		return
	}
	s.skew = max(-int64(maxSkew), min(int64(maxSkew), s.skew+step))
	// Starts may go back now, into time that ids were drawn from before: last digits
	// that were not used then keep them apart.
	s.respread()
	s.last = 0
}

// drawnNow returns the skew with which an id was drawn, if that was just now. The caller keeps ids,
// so nothing else tells a fresh one, whose refusal says something about the clock, from an old one.
func (s *idSource) drawnNow(id hedera.TransactionID, now time.Time) (skew int64, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := now.Add(-startLead).UnixNano() + s.skew - id.ValidStart.Time().UnixNano()
	return s.skew, time.Duration(age).Abs() < skewStep/2
}

// collided says that an id of this process was known to a node before it was sent:
// another process draws the same last digits.
func (s *idSource) collided() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.respread()
}

func (s *idSource) respread() { s.digit = (s.digit + s.hop) % idStride }

// drawnAt returns when an id was drawn, in nanoseconds since the Unix epoch by the clock of this process.
func (s *idSource) drawnAt(id hedera.TransactionID) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return id.ValidStart.Time().Add(startLead).UnixNano() - s.skew
}

// operation is what a transaction does: the gRPC method that takes it, and a body that has nothing but Data.
type operation struct {
	method string
	body   *hapi.TransactionBody
}

// ethereumOperation wraps a signed Ethereum transaction.
func ethereumOperation(raw []byte, callData *hedera.ID, allowance hedera.Tinybar) operation {
	inner := &hapi.EthereumTransactionBody{EthereumData: raw, MaxGasAllowance: int64(allowance)}
	if callData != nil {
		inner.CallData = callData.FileID()
	}
	return operation{hapi.MethodCallEthereum, &hapi.TransactionBody{Data: &hapi.TransactionBody_EthereumTransaction{EthereumTransaction: inner}}}
}

// draft is a transaction that lacks only the node it is for and the signature.
type draft struct {
	operation
	id     hedera.TransactionID
	maxFee hedera.Tinybar
	signer *Operator
}

// sign returns the transaction for one node. The SHA-384 of its SignedTransactionBytes is its hash. The bytes are those that the
// network's official clients make.
func (d *draft) sign(node hedera.ID) (*hapi.Transaction, error) {
	wire := proto.MarshalOptions{Deterministic: true}
	body, err := wire.Marshal(&hapi.TransactionBody{
		TransactionID: transactionID(d.id), NodeAccountID: node.AccountID(), TransactionFee: uint64(d.maxFee),
		TransactionValidDuration: &hapi.Duration{Seconds: int64(ValidDuration / time.Second)}, Memo: new(string), Data: d.body.GetData(),
	})
	if err != nil {
		return nil, err
	}
	signature, err := d.signer.Key.Sign(body)
	if err != nil {
		return nil, err
	}
	pair := &hapi.SignaturePair{PubKeyPrefix: d.signer.Key.Public(), Signature: &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: signature}}
	if d.signer.Key.Kind() == hedera.Ed25519 {
		pair.Signature = &hapi.SignaturePair_Ed25519{Ed25519: signature}
	}
	signed, err := wire.Marshal(&hapi.SignedTransaction{BodyBytes: body, SigMap: &hapi.SignatureMap{SigPair: []*hapi.SignaturePair{pair}}})
	return &hapi.Transaction{SignedTransactionBytes: signed}, err
}

// transactionID writes zeros where the network's official clients do.
func transactionID(id hedera.TransactionID) *hapi.TransactionID {
	return &hapi.TransactionID{
		TransactionValidStart: id.ValidStart.Message(), AccountID: id.Payer.AccountID(), Scheduled: new(bool),
	}
}

// receiptQuery asks for the receipt of a transaction. It is free, so its header holds no payment.
func receiptQuery(id hedera.TransactionID) *hapi.Query {
	return &hapi.Query{Query: &hapi.Query_TransactionGetReceipt{TransactionGetReceipt: &hapi.TransactionGetReceiptQuery{
		Header: &hapi.QueryHeader{ResponseType: hapi.ResponseType_ANSWER_ONLY.Enum()}, TransactionID: transactionID(id),
	}}}
}
