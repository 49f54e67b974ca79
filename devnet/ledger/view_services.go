package ledger

import (
	"iter"
	"slices"

	"lockstep/internal/hedera"
)

// Token returns a token, deleted ones included.
func (v *View) Token(id hedera.ID) (Token, bool) {
	if id.Shard != 0 || id.Realm != 0 {
		return Token{}, false
	}
	return rowAt(v, v.l.world.tokens, id.Num)
}

// Tokens yields tokens with low ≤ number ≤ high by number, ascending or descending.
func (v *View) Tokens(low, high int64, descending bool) iter.Seq[*Token] {
	return rowsAt(v, v.l.world.tokens, low, high, descending)
}

// Topic returns a topic, deleted ones included.
func (v *View) Topic(id hedera.ID) (Topic, bool) {
	if id.Shard != 0 || id.Realm != 0 {
		return Topic{}, false
	}
	return rowAt(v, v.l.world.topics, id.Num)
}

// Schedule returns a schedule, those that executed, expired or were deleted included.
func (v *View) Schedule(id hedera.ID) (Schedule, bool) {
	if id.Shard != 0 || id.Realm != 0 {
		return Schedule{}, false
	}
	return rowAt(v, v.l.world.schedules, id.Num)
}

// Schedules yields schedules with low ≤ number ≤ high by number, ascending or descending.
func (v *View) Schedules(low, high int64, descending bool) iter.Seq[*Schedule] {
	return rowsAt(v, v.l.world.schedules, low, high, descending)
}

// Relation returns the relation of an account with a token.
func (v *View) Relation(account, token hedera.ID) (Relation, bool) {
	return rowAt(v, v.l.world.relations, relationKey{account.Num, token.Num})
}

// Relations yields the relations of an account by token number.
func (v *View) Relations(account hedera.ID, descending bool) iter.Seq[*Relation] {
	return rowsAt(v, v.l.world.relations, relationKey{account.Num, 0}, relationKey{account.Num, every}, descending)
}

// Holders yields the relations with a token by account number.
func (v *View) Holders(token hedera.ID, descending bool) iter.Seq[*Relation] {
	t := v.l.world.holders
	v.l.mu.RLock()
	keys := append([]relationKey(nil), t.Between(relationKey{token.Num, 0}, relationKey{token.Num, every})...)
	v.l.mu.RUnlock()
	return func(yield func(*Relation) bool) {
		for i := range keys {
			key := keys[i]
			if descending {
				key = keys[len(keys)-1-i]
			}
			if r, ok := v.Relation(hedera.Entity(key.token), token); ok && !yield(&r) { // the two have changed places
				return
			}
		}
	}
}

// NFT returns one NFT, burned ones included.
func (v *View) NFT(token hedera.ID, serial int64) (NFT, bool) {
	return rowAt(v, v.l.world.nfts, nftKey{token.Num, serial})
}

// NFTs yields the NFTs of a token with low ≤ serial ≤ high, burned ones included.
func (v *View) NFTs(token hedera.ID, low, high int64, descending bool) iter.Seq[*NFT] {
	return rowsAt(v, v.l.world.nfts, nftKey{token.Num, low}, nftKey{token.Num, high}, descending)
}

// Allowances yields what an owner lets others spend, by spender and then token.
func (v *View) Allowances(owner hedera.ID, descending bool) iter.Seq[*Allowance] {
	return rowsAt(v, v.l.world.allowances, allowanceKey{owner: owner.Num}, allowanceKey{owner.Num, every, every}, descending)
}

// NFTAllowances yields the permissions to transfer all NFTs of a token: those that an
// owner gave, or all with owner 0.
func (v *View) NFTAllowances(owner hedera.ID, descending bool) iter.Seq[*NFTAllowance] {
	low, high := allowanceKey{owner: owner.Num}, allowanceKey{owner.Num, every, every}
	if owner.IsZero() {
		high.owner = every
	}
	return rowsAt(v, v.l.world.nftAllowances, low, high, descending)
}

// Airdrops yields the pending airdrops of a sender, by receiver, token and serial, or with
// received those that an account may claim, by sender, token and serial.
func (v *View) Airdrops(party hedera.ID, received, descending bool) iter.Seq[*Airdrop] {
	low, high := airdropKey{sender: party.Num}, airdropKey{party.Num, every, every, every}
	if !received {
		return rowsAt(v, v.l.world.airdrops, low, high, descending)
	}
	v.l.mu.RLock()
	keys := slices.Clone(v.l.world.claimable.Between(low, high))
	v.l.mu.RUnlock()
	if descending {
		slices.Reverse(keys)
	}
	return func(yield func(*Airdrop) bool) {
		for _, key := range keys {
			if a, ok := rowAt(v, v.l.world.airdrops, key.turned()); ok && !yield(&a) {
				return
			}
		}
	}
}
