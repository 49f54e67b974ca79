package consensus

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// This file writes HAPI messages by hand, because the bytes are what is signed:
// one buffer, no reflection, and zero fields exactly where the network's official
// clients write them (shard and realm, an empty memo, scheduled=false).

// Field numbers of the messages written here.
const (
	fieldTransactionSigned = 5 // Transaction.signedTransactionBytes

	fieldSignedBody   = 1 // SignedTransaction.bodyBytes
	fieldSignedSigMap = 2 // SignedTransaction.sigMap

	fieldBodyID       = 1 // TransactionBody…
	fieldBodyNode     = 2
	fieldBodyFee      = 3
	fieldBodyDuration = 4
	fieldBodyMemo     = 6

	fieldPairPrefix  = 1 // SignaturePair…
	fieldPairEd25519 = 3
	fieldPairECDSA   = 6

	fieldEthereumData      = 1 // EthereumTransactionBody…
	fieldEthereumCallData  = 2
	fieldEthereumAllowance = 3

	fieldQueryReceipt = 14 // Query.transactionGetReceipt
)

const signatureSize = 64 // of either scheme

// operation is what a transaction does: the gRPC method that takes it, and the
// part of the body's data that says it.
type operation struct {
	method string
	field  protowire.Number // which member of TransactionBody.data
	data   []byte           // that member, encoded
}

// ethereumOperation wraps a signed Ethereum transaction.
func ethereumOperation(raw []byte, callData *hedera.ID, allowance hedera.Tinybar) operation {
	data := make([]byte, 0, len(raw)+48)
	data = protowire.AppendTag(data, fieldEthereumData, protowire.BytesType)
	data = protowire.AppendBytes(data, raw)
	if callData != nil {
		data = appendID(data, fieldEthereumCallData, *callData)
	}
	if allowance != 0 {
		data = appendVarint(data, fieldEthereumAllowance, uint64(allowance))
	}
	return operation{method: hapi.MethodCallEthereum, field: 50, data: data}
}

// draft is a transaction that lacks only the node it is for and the signature.
type draft struct {
	operation
	id     hedera.TransactionID
	maxFee hedera.Tinybar
	memo   string // the maximum is 100 bytes
	signer *Operator
}

// sign returns the bytes of the Transaction for one node, and within them the
// SignedTransaction, whose SHA-384 is the transaction's hash.
func (d *draft) sign(node hedera.ID) (transaction, signed []byte, err error) {
	var scratch [256]byte
	head := d.appendHead(scratch[:0], node)
	public := d.signer.Key.Public()

	bodySize := len(head) + protowire.SizeTag(d.field) + protowire.SizeBytes(len(d.data))
	pairSize := 1 + protowire.SizeBytes(len(public)) + 1 + protowire.SizeBytes(signatureSize)
	sigMapSize := 1 + protowire.SizeBytes(pairSize)
	signedSize := 1 + protowire.SizeBytes(bodySize) + 1 + protowire.SizeBytes(sigMapSize)

	out := make([]byte, 0, 1+protowire.SizeBytes(signedSize))
	out = appendLength(out, fieldTransactionSigned, signedSize)
	signedStart := len(out)
	out = appendLength(out, fieldSignedBody, bodySize)
	bodyStart := len(out)
	out = append(out, head...)
	out = protowire.AppendTag(out, d.field, protowire.BytesType)
	out = protowire.AppendBytes(out, d.data)

	signature, err := d.signer.Key.Sign(out[bodyStart:])
	if err != nil {
		return nil, nil, err
	}
	out = appendLength(out, fieldSignedSigMap, sigMapSize)
	out = appendLength(out, 1, pairSize)
	out = appendBytes(out, fieldPairPrefix, public)
	scheme := protowire.Number(fieldPairECDSA)
	if d.signer.Key.Kind() == hedera.Ed25519 {
		scheme = fieldPairEd25519
	}
	out = appendBytes(out, scheme, signature)
	return out, out[signedStart:], nil
}

// appendHead writes the fields of the body that come before its data.
func (d *draft) appendHead(b []byte, node hedera.ID) []byte {
	b = appendTransactionID(b, fieldBodyID, d.id)
	b = appendID(b, fieldBodyNode, node)
	b = appendVarint(b, fieldBodyFee, uint64(d.maxFee))
	seconds := uint64(ValidDuration / time.Second)
	b = appendLength(b, fieldBodyDuration, 1+protowire.SizeVarint(seconds))
	b = appendVarint(b, 1, seconds)
	return protowire.AppendString(protowire.AppendTag(b, fieldBodyMemo, protowire.BytesType), d.memo)
}

// receiptQuery returns the bytes of a Query for the receipt of a transaction. It
// is free, so its header holds no payment.
func receiptQuery(id hedera.TransactionID) []byte {
	var scratch [96]byte
	inner := append(scratch[:0], 0x0a, 2, 0x10, 0) // header{responseType: ANSWER_ONLY}
	inner = appendTransactionID(inner, 2, id)
	return appendBytes(make([]byte, 0, len(inner)+4), fieldQueryReceipt, inner)
}

func appendTransactionID(b []byte, field protowire.Number, id hedera.TransactionID) []byte {
	var scratch [80]byte
	start := scratch[:0:32]
	start = appendVarint(start, 1, uint64(id.ValidStart.Seconds))
	if id.ValidStart.Nanos != 0 {
		start = appendVarint(start, 2, uint64(id.ValidStart.Nanos))
	}
	inner := appendBytes(scratch[32:32], 1, start)
	inner = appendID(inner, 2, id.Payer)
	inner = append(inner, 0x18, 0) // scheduled=false
	return appendBytes(b, field, inner)
}

// appendID writes an AccountID or a FileID; they have the same form.
func appendID(b []byte, field protowire.Number, id hedera.ID) []byte {
	shard, realm, num := uint64(id.Shard), uint64(id.Realm), uint64(id.Num)
	b = appendLength(b, field, 3+protowire.SizeVarint(shard)+protowire.SizeVarint(realm)+protowire.SizeVarint(num))
	b = appendVarint(b, 1, shard)
	b = appendVarint(b, 2, realm)
	return appendVarint(b, 3, num)
}

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// appendLength starts an embedded message of a known size.
func appendLength(b []byte, field protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(size))
}
