package eth

import "github.com/ethereum/go-ethereum/core/types"

// The JSON of an object is never longer than what JSONSize says, and rarely much shorter:
// numbers are taken to be as long as they can be.
const (
	logSize         = 600 // without data and topics
	transactionSize = 1500
	accessSize      = 100
	permissionSize  = 500 // of an Authorization
	receiptSize     = 1780
	blockSize       = 2200
	wordSize        = 70 // a hash and its comma
)

// JSONSize implements jsonx.Sizer.
func (l *Log) JSONSize() int { return logSize + 2*len(l.Data) + wordSize*len(l.Topics) }

// JSONSize implements jsonx.Sizer.
func (l Logs) JSONSize() int { return sizeOf(l) }

// JSONSize implements jsonx.Sizer.
func (t *Transaction) JSONSize() int {
	return transactionSize + 2*len(t.Input) + permissionSize*len(t.Authorizations) + accessListSize(t.AccessList)
}

func accessListSize(list types.AccessList) (n int) {
	for i := range list {
		n += accessSize + wordSize*len(list[i].StorageKeys)
	}
	return n
}

// JSONSize implements jsonx.Sizer.
func (r *Receipt) JSONSize() int {
	return receiptSize + 2*len(r.RevertReason) + sizeOf(r.Logs)
}

// JSONSize implements jsonx.Sizer.
func (r Receipts) JSONSize() int { return sizeOf(r) }

// JSONSize implements jsonx.Sizer.
func (b *Block) JSONSize() int {
	if b.Full {
		return blockSize + sizeOf(b.Transactions)
	}
	return blockSize + wordSize*len(b.Transactions)
}

func sizeOf[T interface{ JSONSize() int }](list []T) int {
	n := len("[]")
	for _, item := range list {
		n += item.JSONSize() + len(",")
	}
	return n
}
