package mirror

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// What records hold, field by field. A change here needs a new recordVersion.

func blockFields(c *coder, b *Block) {
	c.uint64(&b.Number)
	c.fixed(b.Hash[:])
	c.fixed(b.ParentHash[:])
	c.time(&b.From)
	c.time(&b.To)
	c.uint64(&b.Count)
	c.uint64(&b.GasUsed)
	c.uint64(&b.Size)
	bloomField(c, &b.Bloom)
	c.text(&b.HAPI)
}

// bloomField writes a bloom without bits in a byte or two, since most have none.
func bloomField(c *coder, bloom *[]byte) {
	empty := len(*bloom) > 0 && len(*bloom) <= types.BloomByteLength && allZero(*bloom)
	if !c.present(empty) {
		c.bytes(bloom)
		return
	}
	n := uint64(len(*bloom))
	if c.uint64(&n); c.reading {
		*bloom = make([]byte, min(n, types.BloomByteLength))
	}
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

func resultFields(c *coder, r *ContractResult) {
	c.fixed(r.Hash[:])
	c.fixed(r.BlockHash[:])
	c.optional(&r.BlockNumber)
	c.optional(&r.Index)
	c.time(&r.Timestamp)
	c.text(&r.Result)
	c.uint64(&r.Status)
	c.text(&r.ErrorMessage)
	c.fixed(r.From[:])
	c.maybeAddress(&r.To)
	c.maybeAddress(&r.Address)
	c.id(&r.Contract)
	items(c, &r.Created, (*coder).id)
	c.optional(&r.Type)
	c.big(&r.ChainID)
	c.optional(&r.Nonce)
	c.uint64(&r.GasLimit)
	c.uint64(&r.GasUsed)
	c.big(&r.GasPrice)
	c.big(&r.MaxFee)
	c.big(&r.MaxTip)
	c.big(&r.Amount)
	c.bytes(&r.Input)
	c.bytes(&r.Output)
	c.big(&r.V)
	c.big(&r.R)
	c.big(&r.S)
	items(c, (*[]types.AccessTuple)(&r.AccessList), accessFields)
	items(c, &r.Authorizations, authorizationFields)
	bloomField(c, &r.Bloom)
	items(c, &r.Logs, pointers(logFields))
}

func accessFields(c *coder, t *types.AccessTuple) {
	c.fixed(t.Address[:])
	items(c, &t.StorageKeys, hashField)
}

func hashField(c *coder, h *common.Hash) { c.fixed(h[:]) }

func authorizationFields(c *coder, a *Authorization) {
	c.big(&a.ChainID)
	c.fixed(a.Address[:])
	c.uint64(&a.Nonce)
	c.uint64(&a.YParity)
	c.big(&a.R)
	c.big(&a.S)
}

func logFields(c *coder, l *Log) {
	c.fixed(l.Address[:])
	items(c, &l.Topics, hashField)
	c.bytes(&l.Data)
	c.uint64(&l.Index)
	c.fixed(l.TxHash[:])
	c.uint64(&l.TxIndex)
	c.fixed(l.BlockHash[:])
	c.uint64(&l.BlockNumber)
	c.time(&l.Timestamp)
	l.setTime(l.Timestamp)
	l.complete = c.present(l.complete)
}

func resultsFields(c *coder, list *[]*ContractResult) { items(c, list, pointers(resultFields)) }

func logsFields(c *coder, list *[]*Log) { items(c, list, pointers(logFields)) }

func addressFields(c *coder, a *common.Address) { c.fixed(a[:]) }
