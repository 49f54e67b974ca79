package ledger

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/versions"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// genesis makes the system accounts, the configured accounts and block 0.
func (l *Ledger) genesis(now time.Time) error {
	at := now.UnixNano()
	if l.fork != nil {
		at = l.fork.Block.To.UnixNano()
		l.startAfter(at)
		now = l.Now()
	}
	system := systemKeys(hapikey.Ed25519(devaccounts.OperatorPublicKey()))
	for _, id := range l.cfg.Nodes {
		if id.Num > state.LastSystemCode {
			system[id.Num] = system[state.Treasury]
		}
	}
	o := state.NewOverlay(l.store, at, false)
	rest, err := l.genesisAccounts(o, system)
	if err != nil {
		return err
	}
	for num, key := range system {
		e := &state.Entity{Description: genesisDescription(at, hedera.Entity(num).LongZero(), nil, key)}
		if l.fork != nil {
			e.Balance = l.fork.System[num]
		}
		if num == state.Treasury {
			e.Balance = rest
		}
		o.SetEntity(num, e)
	}
	o.Tables.Commit(at, new([]versions.Ref))
	l.systemFiles(at)

	l.lastTime, l.closedAt = at, now
	if l.fork != nil {
		l.published = l.chain.Adopt(l.fork.genesisBlock()).To.UnixNano()
	} else {
		l.chain.Begin(hedera.FromNanos(at))
		l.published = l.chain.CloseOpen().To.UnixNano()
	}
	l.newest.Store(l.viewAt(l.published))
	return nil
}

// systemKeys returns the keys of the accounts that belong to the network. All have the operator's, but for those that
// only collect: they have none. There are none where the system's files (101 to 199) and contracts (350 to 399) have
// their numbers, and none from 751 to 899 but those that collect.
func systemKeys(operator *hapi.Key) map[int64]*hapi.Key {
	keys := make(map[int64]*hapi.Key, state.LastSystemCode)
	for _, exist := range [][2]int64{{1, 100}, {200, 349}, {400, state.LastSystemNumber}, {900, state.LastSystemCode}} {
		for num := exist[0]; num <= exist[1]; num++ {
			keys[num] = operator
		}
	}
	for _, num := range []int64{state.Coinbase, 800, 801, state.FeeCollector} {
		keys[num] = nil
	}
	return keys
}

// genesisAccounts makes the configured accounts and returns what is left of the supply.
func (l *Ledger) genesisAccounts(o *state.Overlay, system map[int64]*hapi.Key) (hedera.Tinybar, error) {
	rest := state.TotalSupply
	l.store.NextNum = state.FirstUserNumber
	if l.fork != nil {
		rest, l.store.NextNum = l.fork.System[state.Treasury], l.fork.First
	}
	known := map[int64]bool{}
	for _, a := range l.cfg.Accounts {
		if _, taken := system[a.ID.Num]; a.ID.Num < state.FirstUserNumber || taken || known[a.ID.Num] {
			return 0, fmt.Errorf("account %s: below 0.0.%d or twice", a.ID, state.FirstUserNumber)
		}
		known[a.ID.Num] = true
		if a.Balance < 0 || a.Balance > rest {
			return 0, errors.New("the balances exceed the supply")
		}
		if l.fork != nil {
			if own, ok := l.fork.Accounts[a.ID.Num]; ok {
				o.SetEntity(a.ID.Num, state.EntityOf(&own))
				continue
			}
		}
		key, err := hapikey.FromPublic(a.PublicKey)
		if err != nil {
			return 0, fmt.Errorf("account %s: %w", a.ID, err)
		}
		var alias []byte
		if a.Address != (common.Address{}) {
			alias = a.Address.Bytes()
		}
		rest -= a.Balance
		e := &state.Entity{Balance: a.Balance, Description: genesisDescription(o.AsOf, a.EVMAddress(), alias, key)}
		if l.fork != nil {
			e.Nonce = l.fork.Nonces[a.ID.Num]
		}
		o.SetEntity(a.ID.Num, e)
		l.store.NextNum = max(l.store.NextNum, a.ID.Num+1)
	}
	return rest, nil
}

func genesisDescription(at int64, address common.Address, alias []byte, key *hapi.Key) *state.Description {
	created := hedera.FromNanos(at)
	return &state.Description{
		Address: address, Alias: alias, Key: key, Created: created,
		Expires:         hedera.Timestamp{Seconds: created.Seconds + core.GenesisRenewal, Nanos: created.Nanos},
		AutoRenewPeriod: core.GenesisRenewal, StakedNode: -1,
	}
}

// NodeInfo is a consensus node as the address book shows it.
type NodeInfo struct {
	NodeID  int64
	Account hedera.ID
	Host    string // IPv4 address
	Port    int

	TLSPort  int    // of the same services in TLS; 0: none
	CertHash string // hexadecimal SHA-384 of the certificate in PEM form; empty without TLS
}

// addressBook lists the consensus nodes. Their endpoints are entered by SetNodes,
// once the servers listen.
func (l *Ledger) addressBook() []byte {
	book := &hapi.NodeAddressBook{}
	for _, n := range l.nodes {
		book.NodeAddress = append(book.NodeAddress, nodeAddress(n))
	}
	return core.Marshal(book)
}

// rateSet is the exchange rate in the form of receipts and of file 0.0.112.
func (l *Ledger) rateSet() *hapi.ExchangeRateSet {
	r := l.net.Rate
	rate := func() *hapi.ExchangeRate {
		return &hapi.ExchangeRate{
			HbarEquiv: r.Hbar, CentEquiv: r.Cents,
			ExpirationTime: &hapi.TimestampSeconds{Seconds: r.Expires},
		}
	}
	return &hapi.ExchangeRateSet{CurrentRate: rate(), NextRate: rate()}
}

func nodeAddress(n NodeInfo) *hapi.NodeAddress {
	at := func(port int) *hapi.ServiceEndpoint {
		return &hapi.ServiceEndpoint{IpAddressV4: net.ParseIP(n.Host).To4(), Port: int32(port)}
	}
	address := &hapi.NodeAddress{
		NodeId: n.NodeID, NodeAccountId: n.Account.AccountID(),
		Description:     fmt.Sprintf("node %d of the development network", n.NodeID),
		ServiceEndpoint: []*hapi.ServiceEndpoint{at(n.Port)},
	}
	if n.TLSPort != 0 {
		address.ServiceEndpoint = append(address.ServiceEndpoint, at(n.TLSPort))
		address.NodeCertHash = []byte(n.CertHash) // the text, as on the real network
	}
	return address
}
