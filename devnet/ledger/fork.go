package ledger

import (
	"encoding/base32"
	"errors"
	"time"

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

// ForkPoint is where a ledger leaves the history of its upstream.
type ForkPoint struct {
	Upstream Upstream
	Block    Block // the newest one of the upstream that the fork has; its records stay there
	Rate     ExchangeRate
	GasPrice hedera.Tinybar

	// First is the number of the first entity that the fork makes. The upstream's are below it.
	First int64
	// System are the balances of the accounts up to 0.0.1000, of which the fork has copies
	// with keys of its own.
	System map[int64]hedera.Tinybar
	// Accounts are those of Config.Accounts that the upstream has under the same number and
	// with the same key: they go on there. For an address that another account of it has,
	// Nonces says how far that is, so that contracts get new addresses.
	Accounts map[int64]Account
	Nonces   map[int64]int64

	CacheBytes int64 // of facts about the upstream that are kept, roughly; 64 MiB
}

const defaultFactBytes = 64 << 20

// ErrForked is state of a fork that was to be saved or replaced: it is whole only together with its upstream.
var ErrForked = errors.New("the network is a fork: its state is not saved or loaded")

// fork knows the upstream of a ledger. What was learned stays as it is, so that it may be
// forgotten and asked again; the ledger's world has what was changed since. A nil fork has no upstream.
type fork struct {
	ForkPoint
	at    int64 // fork point, ns
	facts *facts.Cache[factKey]
}

// factKey names a fact: what kind of thing, and which.
type factKey struct {
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

func newFork(p *ForkPoint) *fork {
	if p == nil {
		return nil
	}
	f := &fork{ForkPoint: *p, at: p.Block.To.UnixNano()}
	if f.CacheBytes == 0 {
		f.CacheBytes = defaultFactBytes
	}
	f.facts = facts.New[factKey](f.CacheBytes)
	return f
}

const factWeight = 300 // bytes of a small fact, with its key and places

func light[V any](V) int64 { return factWeight }

// account finds an account of the upstream. Numbers from First on are the fork's own.
func (f *fork) account(to *facts.Rehearsal[factKey], name string) *Account {
	return facts.Learn(f.facts, to, factKey{kind: factAccount, name: name}, weighAccount, func() (*Account, error) {
		a, err := f.Upstream.Account(name)
		if err != nil || a == nil || a.ID.Num >= f.First {
			return nil, err
		}
		if number := a.ID.String(); number != name {
			f.facts.Keep(factKey{kind: factAccount, name: number}, a, factWeight)
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

// upstreams is an account of the upstream as an entity.
func upstreams(a *Account) *entity {
	return &entity{Balance: a.Balance, Nonce: a.Nonce, Description: &a.Description, upstream: true}
}

// numbered finds an entity of the upstream by its number.
func (f *fork) numbered(to *facts.Rehearsal[factKey], num int64) *entity {
	if num <= lastSystemCode || num >= f.First {
		return nil
	}
	if a := f.account(to, hedera.Entity(num).String()); a != nil {
		return upstreams(a)
	}
	return nil
}

// addressed finds the number of an entity of the upstream by its EVM address; 0 for none.
func (f *fork) addressed(to *facts.Rehearsal[factKey], a common.Address) int64 {
	return f.named(to, a.Hex())
}

// aliased finds the number of an account of the upstream by a key as its alias; 0 for none.
func (f *fork) aliased(to *facts.Rehearsal[factKey], alias []byte) int64 {
	return f.named(to, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(alias))
}

func (f *fork) named(to *facts.Rehearsal[factKey], name string) int64 {
	if f == nil {
		return 0
	}
	if a := f.account(to, name); a != nil {
		return a.ID.Num
	}
	return 0
}

func (f *fork) slot(to *facts.Rehearsal[factKey], contract int64, key common.Hash) common.Hash {
	return facts.Learn(f.facts, to, factKey{kind: factSlot, a: contract, slot: key}, light, func() (common.Hash, error) {
		return f.Upstream.Slot(hedera.Entity(contract), key)
	})
}

// blockHash is what BLOCKHASH shows of a block before the fork point.
func (f *fork) blockHash(number int64) common.Hash {
	if f == nil {
		return common.Hash{}
	}
	return facts.Learn(f.facts, nil, factKey{kind: factBlockHash, a: number}, light, func() (common.Hash, error) {
		return f.Upstream.BlockHash(number)
	})
}

// attach has tables ask the upstream for rows that they do not have.
func (f *fork) attach(t *tables) {
	if f == nil {
		return
	}
	t.entities.ask(f.numbered)
	t.tokens.ask(func(to *facts.Rehearsal[factKey], num int64) *Token {
		return upstreamRow(f, to, num, factKey{kind: factToken, a: num}, func() (*Token, error) { return f.Upstream.Token(hedera.Entity(num)) })
	})
	t.relations.ask(func(to *facts.Rehearsal[factKey], k relationKey) *Relation {
		if k.Account >= f.First {
			return nil
		}
		return upstreamRow(f, to, k.Token, factKey{kind: factRelation, a: k.Account, b: k.Token}, func() (*Relation, error) {
			return f.Upstream.Relation(hedera.Entity(k.Account), hedera.Entity(k.Token))
		})
	})
	t.relations.upstreamKeys = f.relationKeys
	t.nfts.ask(func(to *facts.Rehearsal[factKey], k nftKey) *NFT {
		return upstreamRow(f, to, k.Token, factKey{kind: factNFT, a: k.Token, b: k.Serial}, func() (*NFT, error) {
			return f.Upstream.NFT(hedera.Entity(k.Token), k.Serial)
		})
	})
	t.allowances.ask(func(to *facts.Rehearsal[factKey], k allowanceKey) *Allowance {
		if k.Owner >= f.First || k.Spender >= f.First {
			return nil
		}
		return upstreamRow(f, to, k.Token, factKey{kind: factAllowance, a: k.Owner, b: k.Token, c: k.Spender}, func() (*Allowance, error) {
			return f.Upstream.Allowance(hedera.Entity(k.Owner), hedera.Entity(k.Token), hedera.Entity(k.Spender))
		})
	})
	t.nftAllowances.ask(func(to *facts.Rehearsal[factKey], k allowanceKey) *NFTAllowance {
		if k.Owner >= f.First || k.Spender >= f.First {
			return nil
		}
		return upstreamRow(f, to, k.Token, factKey{kind: factNFTAllowance, a: k.Owner, b: k.Token, c: k.Spender}, func() (*NFTAllowance, error) {
			return f.Upstream.NFTAllowance(hedera.Entity(k.Owner), hedera.Entity(k.Token), hedera.Entity(k.Spender))
		})
	})
}

// upstreamRow is a row about a token of the upstream, or about hbar.
func upstreamRow[V any](f *fork, to *facts.Rehearsal[factKey], token int64, key factKey, fetch func() (*V, error)) *V {
	if token >= f.First || token < 0 || token > 0 && token <= lastSystemCode {
		return nil
	}
	return facts.Learn(f.facts, to, key, light, fetch)
}

// relationKeys names the relations of one account.
func (f *fork) relationKeys(to *facts.Rehearsal[factKey], low, high relationKey) []relationKey {
	if low.Account != high.Account || low.Account <= 0 || low.Account >= f.First {
		return nil
	}
	return facts.Learn(f.facts, to, factKey{kind: factRelations, a: low.Account}, weighKeys, func() ([]relationKey, error) {
		all, err := f.Upstream.Relations(hedera.Entity(low.Account))
		var keys []relationKey
		for i := range all {
			key := relationKey{low.Account, all[i].Token.Num}
			f.facts.Keep(factKey{kind: factRelation, a: key.Account, b: key.Token}, &all[i], factWeight)
			keys = append(keys, key)
		}
		return keys, err
	})
}

func weighKeys(keys []relationKey) int64 { return factWeight + 16*int64(len(keys)) }

// Prepare fetches what a transaction needs to know of a fork's upstream, as long as no other one waits
// for that. It changes nothing. The error is the upstream's.
func (l *Ledger) Prepare(sub *Submission) error {
	if l.fork == nil {
		return nil
	}
	const rounds = 10_000 // each learns something
	r := facts.NewRehearsal[factKey]()
	for range rounds {
		done, err := r.Attempt(func() { l.rehearse(sub, r) })
		if done || err != nil {
			return err
		}
	}
	return &facts.UpstreamError{Err: errors.New("a transaction needs too much of it")}
}

// rehearse handles a transaction on an overlay that is thrown away.
func (l *Ledger) rehearse(sub *Submission, r *facts.Rehearsal[factKey]) {
	l.handling.Lock()
	defer l.handling.Unlock()
	h := l.handle(sub, l.upcoming())
	h.o.rehearsal = r
	h.run()
}

// genesisBlock is the fork point as the ledger's first block.
func (f *fork) genesisBlock() *Block {
	b := f.Block
	b.Records = nil
	return &b
}

// startAfter keeps the clock from standing before the fork point.
func (l *Ledger) startAfter(at int64) {
	if now := l.Now(); now.UnixNano() < at {
		l.setClock(at)
		l.closedAt = time.Unix(0, at)
	}
}
