package ledger

import (
	"sort"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/versions"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// meta is the part of an entity that rarely changes. It is immutable: a change
// makes a copy, so that old versions of the entity keep the old one.
type meta struct {
	address             common.Address
	alias               []byte
	key                 *hapi.Key
	memo                string
	created             hedera.Timestamp
	expires             hedera.Timestamp
	autoRenewPeriod     int64
	autoRenewAccount    hedera.ID
	maxAutoAssociations int32
	receiverSigRequired bool
	declineReward       bool
	stakedAccount       hedera.ID
	stakedNode          int64
	stakePeriodStart    hedera.Timestamp
	deleted             bool
	obtainer            hedera.ID
	contract            *Contract
	delegation          common.Address // whose code runs as an account's own; zero for none
}

// version is an entity from one consensus time on, until the next version.
type version struct {
	at      int64 // consensus time, ns
	balance hedera.Tinybar
	nonce   int64
	meta    *meta
}

// entity is an account or contract with its history, oldest version first.
type entity struct {
	num      int64
	versions versions.List[version]
	slots    map[common.Hash]*versions.List[slotVersion] // contracts only
	upstream bool                                        // of a fork's upstream: so are slots that are not here
}

// Since is the time of a version.
func (v version) Since() int64 { return v.at }

// slotVersion is a storage word from one consensus time on.
type slotVersion struct {
	at    int64
	value common.Hash
}

// Since is the time of a version.
func (v slotVersion) Since() int64 { return v.at }

// account assembles the public form of a version.
func (e *entity) account(v *version) Account {
	m := v.meta
	return Account{
		ID: hedera.Entity(e.num), Address: m.address, Alias: m.alias, Key: m.key,
		Balance: v.balance, Nonce: v.nonce,
		Memo: m.memo, Created: m.created, Modified: hedera.FromNanos(v.at), Expires: m.expires,
		AutoRenewPeriod: m.autoRenewPeriod, AutoRenewAccount: m.autoRenewAccount,
		MaxAutoAssociations: m.maxAutoAssociations, ReceiverSigRequired: m.receiverSigRequired,
		DeclineReward: m.declineReward, StakedAccount: m.stakedAccount, StakedNode: m.stakedNode, StakePeriodStart: m.stakePeriodStart,
		Deleted: m.deleted, Obtainer: m.obtainer, Contract: m.contract, Delegation: m.delegation,
	}
}

// world is everything that exists, with history. It is not safe for concurrent
// use; the ledger's lock guards it.
type world struct {
	entities  map[int64]*entity
	order     []int64 // entity numbers, ascending
	byAddress map[common.Address]int64
	byAlias   map[string]int64 // serialised key aliases
	files     map[int64]*File  // as they are now: nothing shows old contents
	tables
}

func newWorld(f *fork) *world {
	w := &world{
		entities:  map[int64]*entity{},
		byAddress: map[common.Address]int64{},
		byAlias:   map[string]int64{},
		files:     map[int64]*File{},
		tables:    newTables(),
	}
	f.attach(&w.tables)
	return w
}

// add enters a new entity with its first version.
func (w *world) add(num int64, v version) *entity {
	e := &entity{num: num, versions: versions.List[version]{v}}
	w.entities[num] = e
	if n := len(w.order); n > 0 && w.order[n-1] > num {
		i := sort.Search(n, func(i int) bool { return w.order[i] > num })
		w.order = append(w.order[:i], append([]int64{num}, w.order[i:]...)...)
	} else {
		w.order = append(w.order, num)
	}
	w.index(num, v.meta)
	return e
}

// index makes an entity known by its addresses.
func (w *world) index(num int64, m *meta) {
	if _, longZero := hedera.FromLongZero(m.address); !longZero {
		w.byAddress[m.address] = num
	}
	if len(m.alias) > 0 && len(m.alias) != common.AddressLength {
		w.byAlias[string(m.alias)] = num
	}
}

// find returns an entity and its version at a time.
func (w *world) find(num, ns int64) (*entity, *version) {
	e := w.entities[num]
	if e == nil {
		return nil, nil
	}
	return e, e.versions.At(ns)
}

// resolve finds the number behind an EVM address, long-zero or alias.
func (w *world) resolve(a common.Address) (int64, bool) {
	if id, ok := hedera.FromLongZero(a); ok {
		_, known := w.entities[id.Num]
		return id.Num, known
	}
	num, ok := w.byAddress[a]
	return num, ok
}

// behind returns the entity behind an address, and its version at a time. What it knows of, no
// upstream is asked for.
func (w *world) behind(a common.Address, ns int64) (e *entity, v *version, known bool) {
	num, known := w.resolve(a)
	if known {
		e, v = w.find(num, ns)
	}
	return e, v, known
}

// id is zero for no entity.
func (e *entity) id() hedera.ID {
	if e == nil {
		return hedera.ID{}
	}
	return hedera.Entity(e.num)
}
