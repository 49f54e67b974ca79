package ethapi

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/eth"
	"lockstep/hedera"
)

// learnSenders learns the aliases of senders whose records name them by number: the
// network found the account by the alias that the signature gives. That costs less
// than asking for each. A transaction that the record does not hold as it was signed
// tells nothing.
func (a *API) learnSenders(transactions ...*eth.Transaction) {
	for _, t := range transactions {
		if t == nil || t.R == nil || t.R.Sign() == 0 {
			continue
		}
		if id, numbered := hedera.FromLongZero(t.From); numbered {
			a.mirror.LearnAlias(id, func() (common.Address, bool) { return signer(t) })
		}
	}
}

// signer recovers who signed a transaction, if it is whole.
func signer(t *eth.Transaction) (common.Address, bool) {
	signed, err := t.Signed()
	if err != nil || signed.Hash() != t.Hash {
		return common.Address{}, false
	}
	var rules types.Signer = types.HomesteadSigner{}
	if signed.Protected() {
		if signed.ChainId().Sign() <= 0 {
			return common.Address{}, false
		}
		rules = types.LatestSignerForChainID(signed.ChainId())
	}
	sender, err := types.Sender(rules, signed)
	return sender, err == nil
}

// learnSenders is the API's for everything in the block.
func (c *contents) learnSenders(a *API) {
	for _, e := range c.entries {
		if !e.synthetic {
			a.learnSenders(e.transaction)
		}
	}
}
