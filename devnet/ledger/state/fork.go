package state

import (
	"cmp"
	"encoding/base32"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/facts"
	"lockstep/internal/hedera"
)

// Upstream is the network that a ledger is a fork of, as it was at the fork point. What it does
// not have is nil without an error. An error says that nobody knows whether it has it.
// Implementations are safe for concurrent use and bound how long they take.
type Upstream interface {
	// Account finds an account or contract, also a deleted one. The name is an id, an EVM address in
	// hexadecimal, or an alias in base 32.
	Account(name string) (*Account, error)
	// Slot returns a storage word, zero for one that was never written.
	Slot(contract hedera.ID, key common.Hash) (common.Hash, error)
	Token(id hedera.ID) (*Token, error)
	Relation(account, token hedera.ID) (*Relation, error)
	// Relations returns all relations of an account, or an error for an account with very many.
	Relations(account hedera.ID) ([]Relation, error)
	NFT(token hedera.ID, serial int64) (*NFT, error)
	// Allowance is one of hbar where the token is zero.
	Allowance(owner, token, spender hedera.ID) (*Allowance, error)
	NFTAllowance(owner, token, spender hedera.ID) (*NFTAllowance, error)
	BlockHash(number int64) (common.Hash, error)
}

const defaultFactBytes = 64 << 20

// Origin is what rows come from that a fork has not changed.
type Origin struct {
	Upstream Upstream
	At       int64 // fork point, ns
	Block    int64 // number of the newest block before it

	// First is the number of the first entity that the fork makes. The upstream's are below it.
	First      int64
	CacheBytes int64 // of facts about the upstream that are kept, roughly; 64 MiB
}

// fork knows the upstream of a ledger. What was learned stays as it is, so that it may be
// forgotten and asked again; the ledger's world has what was changed since. A nil fork has no upstream.
type fork struct {
	Origin
	facts *facts.Cache[FactKey]
}

// FactKey names a fact: what kind of thing, and which.
type FactKey struct {
	kind    factKind
	a, b, c int64
	slot    common.Hash
	name    string
}

type factKind uint8

const (
	factAccount factKind = iota
	factSlot
	factToken
	factRelation
	factRelations
	factNFT
	factAllowance
	factNFTAllowance
	factBlockHash
)

func newFork(from *Origin) *fork {
	if from == nil {
		return nil
	}
	return &fork{*from, facts.New[FactKey](cmp.Or(from.CacheBytes, defaultFactBytes))}
}

const factWeight = 300 // bytes of a small fact, with its key and places

func light[V any](V) int64 { return factWeight }

// account finds an account of the upstream. Numbers from First on are the fork's own.
func (f *fork) account(to *facts.Rehearsal[FactKey], name string) *Account {
	return facts.Learn(f.facts, to, FactKey{kind: factAccount, name: name}, weighAccount, func() (*Account, error) {
		a, err := f.Upstream.Account(name)
		if err != nil || a == nil || a.ID.Num >= f.First {
			return nil, err
		}
		if number := a.ID.String(); number != name {
			f.facts.Keep(FactKey{kind: factAccount, name: number}, a, factWeight)
		}
		return a, nil
	})
}

func weighAccount(a *Account) int64 {
	const described = 1_000
	if a == nil {
		return factWeight
	}
	weight := int64(described)
	if c := a.Contract; c != nil {
		weight += int64(len(c.Initcode) + len(c.Runtime))
	}
	return weight
}

// EntityOf is an account of the upstream as an entity.
func EntityOf(a *Account) *Entity {
	return &Entity{Balance: a.Balance, Nonce: a.Nonce, Description: &a.Description, upstream: true}
}

// numbered finds an entity of the upstream by its number.
func (f *fork) numbered(to *facts.Rehearsal[FactKey], num int64) *Entity {
	if num <= LastSystemCode || num >= f.First {
		return nil
	}
	if a := f.account(to, hedera.Entity(num).String()); a != nil {
		return EntityOf(a)
	}
	return nil
}

// addressed finds the number of an entity of the upstream by its EVM address; 0 for none.
func (f *fork) addressed(to *facts.Rehearsal[FactKey], a common.Address) int64 {
	return f.named(to, a.Hex())
}

// aliased finds the number of an account of the upstream by a key as its alias; 0 for none.
func (f *fork) aliased(to *facts.Rehearsal[FactKey], alias []byte) int64 {
	return f.named(to, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(alias))
}

func (f *fork) named(to *facts.Rehearsal[FactKey], name string) int64 {
	if f == nil {
		return 0
	}
	if a := f.account(to, name); a != nil {
		return a.ID.Num
	}
	return 0
}

func (f *fork) slot(to *facts.Rehearsal[FactKey], contract int64, key common.Hash) common.Hash {
	return facts.Learn(f.facts, to, FactKey{kind: factSlot, a: contract, slot: key}, light, func() (common.Hash, error) {
		return f.Upstream.Slot(hedera.Entity(contract), key)
	})
}

// BlockHash is what BLOCKHASH shows of block n in block current; its is false for one that is not from before the fork point.
func (f *fork) BlockHash(current int64, n uint64) (hash common.Hash, its bool) {
	if f == nil || n >= uint64(f.Block) || uint64(current)-n > 256 {
		return hash, false
	}
	number := int64(n)
	return facts.Learn(f.facts, nil, FactKey{kind: factBlockHash, a: number}, light, func() (common.Hash, error) {
		return f.Upstream.BlockHash(number)
	}), true
}

// attach has tables ask the upstream for rows that they do not have.
func (f *fork) attach(t *Tables) {
	if f == nil {
		return
	}
	t.Entities.ask(f.numbered)
	t.Tokens.ask(func(to *facts.Rehearsal[FactKey], num int64) *Token {
		return upstreamRow(f, to, num, FactKey{kind: factToken, a: num}, func() (*Token, error) { return f.Upstream.Token(hedera.Entity(num)) })
	})
	t.Relations.ask(func(to *facts.Rehearsal[FactKey], k RelationKey) *Relation {
		if k.Account >= f.First {
			return nil
		}
		return upstreamRow(f, to, k.Token, FactKey{kind: factRelation, a: k.Account, b: k.Token}, func() (*Relation, error) {
			return f.Upstream.Relation(hedera.Entity(k.Account), hedera.Entity(k.Token))
		})
	})
	t.Relations.upstreamKeys = f.relationKeys
	t.NFTs.ask(func(to *facts.Rehearsal[FactKey], k NFTKey) *NFT {
		return upstreamRow(f, to, k.Token, FactKey{kind: factNFT, a: k.Token, b: k.Serial}, func() (*NFT, error) {
			return f.Upstream.NFT(hedera.Entity(k.Token), k.Serial)
		})
	})
	t.Allowances.ask(func(to *facts.Rehearsal[FactKey], k AllowanceKey) *Allowance {
		if k.Owner >= f.First || k.Spender >= f.First {
			return nil
		}
		return upstreamRow(f, to, k.Token, FactKey{kind: factAllowance, a: k.Owner, b: k.Token, c: k.Spender}, func() (*Allowance, error) {
			return f.Upstream.Allowance(hedera.Entity(k.Owner), hedera.Entity(k.Token), hedera.Entity(k.Spender))
		})
	})
	t.NFTAllowances.ask(func(to *facts.Rehearsal[FactKey], k AllowanceKey) *NFTAllowance {
		if k.Owner >= f.First || k.Spender >= f.First {
			return nil
		}
		return upstreamRow(f, to, k.Token, FactKey{kind: factNFTAllowance, a: k.Owner, b: k.Token, c: k.Spender}, func() (*NFTAllowance, error) {
			return f.Upstream.NFTAllowance(hedera.Entity(k.Owner), hedera.Entity(k.Token), hedera.Entity(k.Spender))
		})
	})
}

// upstreamRow is a row about a token of the upstream, or about hbar.
func upstreamRow[V any](f *fork, to *facts.Rehearsal[FactKey], token int64, key FactKey, fetch func() (*V, error)) *V {
	if token >= f.First || token < 0 || token > 0 && token <= LastSystemCode {
		return nil
	}
	return facts.Learn(f.facts, to, key, light, fetch)
}

// relationKeys names the relations of one account.
func (f *fork) relationKeys(to *facts.Rehearsal[FactKey], low, high RelationKey) []RelationKey {
	if low.Account != high.Account || low.Account <= 0 || low.Account >= f.First {
		return nil
	}
	return facts.Learn(f.facts, to, FactKey{kind: factRelations, a: low.Account}, weighKeys, func() ([]RelationKey, error) {
		all, err := f.Upstream.Relations(hedera.Entity(low.Account))
		var keys []RelationKey
		for i := range all {
			key := RelationKey{low.Account, all[i].Token.Num}
			f.facts.Keep(FactKey{kind: factRelation, a: key.Account, b: key.Token}, &all[i], factWeight)
			keys = append(keys, key)
		}
		return keys, err
	})
}

func weighKeys(keys []RelationKey) int64 { return factWeight + 16*int64(len(keys)) }
