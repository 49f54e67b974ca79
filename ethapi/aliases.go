package ethapi

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
)

// learnSenders learns the aliases of senders whose records name them by number. The signature gives the alias by
// which the network found the account, so this costs less than a request for each. A record that does not hold
// the transaction as it was signed tells nothing.
func (a *API) learnSenders(transactions ...*eth.Transaction) {
	for _, t := range transactions {
		if t == nil || t.R.ToInt().Sign() == 0 {
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
	rules, err := eth.SignerOf(signed)
	if err != nil {
		return common.Address{}, false
	}
	sender, err := types.Sender(rules, signed)
	return sender, err == nil
}

// learnSenders is API.learnSenders for everything in the block.
func (c *contents) learnSenders(a *API) {
	for _, e := range c.entries {
		if e.synthetic == nil {
			a.learnSenders(e.transaction)
		}
	}
}
