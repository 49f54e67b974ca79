package ethchain

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/ethrpc"
	"lockstep/txmgr"
)

// Pool asks one endpoint for the account's nonce with its pool, and for transactions by their hashes.
// An endpoint that does not count its pool is taken for one in which nothing waits.
func (c *Chain) Pool(ctx context.Context, account string, list []txmgr.Signed) (next uint64, held []bool, err error) {
	var nonce hexutil.Uint64
	questions := make([]*ethrpc.Call, 0, len(list)+1)
	questions = append(questions, ethrpc.Ask(&nonce, "eth_getTransactionCount", account, "pending"))
	questions[0].Optional = true
	txs := make([]struct {
		Hash common.Hash `json:"hash"`
	}, len(list))
	for n, one := range list {
		questions = append(questions, ethrpc.Ask(&txs[n], "eth_getTransactionByHash", one.Hash))
	}
	e, err := c.client.Do(ctx, questions...)
	if err != nil {
		return 0, nil, err
	}
	held = make([]bool, len(list))
	for n, one := range list {
		found, err := questions[n+1].Answer()
		if err != nil {
			return 0, nil, err
		}
		if found && txs[n].Hash != common.HexToHash(one.Hash) {
			return 0, nil, fmt.Errorf("%s: eth_getTransactionByHash: the transaction is another one", e.Name())
		}
		held[n] = found
	}
	return uint64(nonce), held, nil
}
