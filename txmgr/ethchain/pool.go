package ethchain

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/txmgr"
)

// Pool asks one endpoint for the account's nonce with its pool, and for transactions by their hashes.
// An endpoint that does not count its pool is taken for one in which nothing waits.
func (c *Chain) Pool(ctx context.Context, account string, list []txmgr.Signed) (next uint64, held []bool, err error) {
	questions := make([]*question, 0, len(list)+1)
	questions = append(questions, ask("eth_getTransactionCount", account, "pending"))
	for _, one := range list {
		questions = append(questions, ask("eth_getTransactionByHash", one.Hash))
	}
	if _, err := c.one(ctx, questions...); err != nil {
		return 0, nil, err
	}
	var nonce hexutil.Uint64
	var refused *callError
	if _, err := questions[0].into(&nonce); err != nil && !errors.As(err, &refused) {
		return 0, nil, err
	}
	held = make([]bool, len(list))
	for n, one := range list {
		var tx struct {
			Hash common.Hash `json:"hash"`
		}
		found, err := questions[n+1].into(&tx)
		if err == nil && found && tx.Hash != common.HexToHash(one.Hash) {
			err = &transportError{errors.New("eth_getTransactionByHash: the transaction is another one")}
		}
		if err != nil {
			return 0, nil, err
		}
		held[n] = found
	}
	return uint64(nonce), held, nil
}
