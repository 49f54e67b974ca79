package operator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/hedera"
	"lockstep/mirror"
)

var (
	own     = hedera.ID{Num: 1002}
	errAway = errors.New("away at https://user:secret@mirror.example")
	nodeA   = hedera.ID{Num: 3}
	nodeB   = hedera.ID{Num: 4}
)

// network is nodes and a mirror node that answer what a test says.
type network struct {
	none     bool // there is no operator
	nodes    map[hedera.ID]error
	balance  hedera.Tinybar
	account  *mirror.Account
	mirror   error
	answered []hedera.ID // nodes that were asked
}

func (n *network) Operator() (hedera.ID, bool)         { return own, !n.none }
func (n *network) OperatorPublicKey() []byte           { return []byte("key") }
func (n *network) NodesFor(common.Address) []hedera.ID { return []hedera.ID{nodeA, nodeB} }

func (n *network) BalanceAt(_ context.Context, account, at hedera.ID) (hedera.Tinybar, error) {
	n.answered = append(n.answered, at)
	if account != own {
		return 0, errors.New("another account")
	}
	return n.balance, n.nodes[at]
}

func (n *network) AccountByID(context.Context, hedera.ID) (*mirror.Account, error) {
	return n.account, n.mirror
}

func TestLook(t *testing.T) {
	keyed := func(key string) *mirror.Account {
		return &mirror.Account{PublicKey: []byte(key), Balance: 7, BalanceKnown: true}
	}
	both := func(err error) map[hedera.ID]error { return map[hedera.ID]error{nodeA: err, nodeB: err} }
	for name, test := range map[string]struct {
		network     network
		fits, known bool
		trouble     string // a part of it
		balance     hedera.Tinybar
		told        bool
	}{
		"all is well":                   {network{balance: 9, account: keyed("key")}, true, true, "", 9, true},
		"another key":                   {network{balance: 9, account: keyed("other")}, false, true, "key is not the key of its account 0.0.1002", 9, true},
		"several keys":                  {network{balance: 9, account: keyed("")}, false, false, "", 9, true},
		"no such account":               {network{nodes: both(consensus.ErrNoAccount), mirror: mirror.ErrNotFound}, false, true, "0.0.1002 is no account of the network", 0, false},
		"no such account, mirror away":  {network{nodes: both(consensus.ErrNoAccount), mirror: errAway}, false, true, "is no account of the network", 0, false},
		"no such account, nodes away":   {network{nodes: both(errAway), mirror: mirror.ErrNotFound}, false, true, "is no account of the network", 0, false},
		"only the mirror node knows it": {network{nodes: both(consensus.ErrNoAccount), account: keyed("key")}, false, true, "two networks", 7, true},
		"only a node knows it":          {network{balance: 9, mirror: mirror.ErrNotFound}, false, true, "two networks", 9, true},
		"one node is away":              {network{nodes: map[hedera.ID]error{nodeA: errAway}, balance: 9, account: keyed("key")}, true, true, "", 9, true},
		"the nodes are away":            {network{nodes: both(errAway), account: keyed("key")}, true, true, "", 7, true},
		"the mirror node is away":       {network{balance: 9, mirror: errAway}, false, false, "", 9, true},
		"all are away":                  {network{nodes: both(errAway), mirror: errAway}, false, false, "", 0, false},
		"no money":                      {network{account: keyed("key")}, true, true, "0.0.1002 has no balance", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, ok := Look(t.Context(), &test.network, &test.network, time.Minute)
			if !ok || f.ID != own {
				t.Fatalf("%+v, %v", f, ok)
			}
			if fits, known := f.Fits(); fits != test.fits || known != test.known {
				t.Errorf("fits %v, known %v", fits, known)
			}
			if got := f.Trouble(); (got == "") != (test.trouble == "") || !strings.Contains(got, test.trouble) || strings.Contains(got, "secret") {
				t.Errorf("trouble %q, want %q", got, test.trouble)
			}
			if f.BalanceKnown != test.told || f.BalanceKnown && f.Balance != test.balance {
				t.Errorf("balance %d (%v)", f.Balance, f.BalanceKnown)
			}
		})
	}
	if _, ok := Look(t.Context(), &network{none: true}, &network{}, time.Minute); ok {
		t.Error("an operator was found where there is none")
	}
}

// A node that knows no such account has told: the next one is not asked.
func TestLookAsksNoFurther(t *testing.T) {
	n := &network{nodes: map[hedera.ID]error{nodeA: consensus.ErrNoAccount}, mirror: errAway}
	if f, _ := Look(t.Context(), n, n, time.Minute); len(n.answered) != 1 || f.Node != nodeA {
		t.Errorf("asked %v", n.answered)
	}
}
