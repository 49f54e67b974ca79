package consensus

import (
	"time"

	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

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
