package operator

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/hedera"
	"lockstep/mirror"
)

// Nodes are the consensus nodes, and the operator for which they are asked; *consensus.Client is one.
type Nodes interface {
	Operator() (hedera.ID, bool)
	OperatorPublicKey() []byte
	NodesFor(sender common.Address) []hedera.ID
	BalanceAt(ctx context.Context, account, at hedera.ID) (hedera.Tinybar, error)
}

// Mirror is a mirror node; *mirror.Client is one.
type Mirror interface {
	AccountByID(ctx context.Context, id hedera.ID) (*mirror.Account, error)
}

// Key is what is known of the operator's key.
type Key int

// What is known of a key.
const (
	KeyUnknown Key = iota // the mirror node told no single key of the account
	KeyRight
	KeyWrong
)

// Finding is what one look has found.
type Finding struct {
	ID        hedera.ID
	Key       Key
	MirrorErr error     // why the mirror node told nothing of the account; mirror.ErrNotFound: it knows no such account
	Node      hedera.ID // the consensus node that was asked last
	NodeErr   error     // why no node told the balance; consensus.ErrNoAccount: Node knows no such account
	// Balance is the node's word, else the mirror node's.
	Balance      hedera.Tinybar
	BalanceKnown bool
}

// Look asks the mirror node and consensus nodes at once, each for as long as the timeout says. It returns false if there is
// no operator.
func Look(ctx context.Context, nodes Nodes, reader Mirror, timeout time.Duration) (Finding, bool) {
	id, ok := nodes.Operator()
	if !ok {
		return Finding{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	f := Finding{ID: id}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		f.Node, f.Balance, f.NodeErr = atNode(ctx, nodes, id)
	}()
	account, err := reader.AccountByID(ctx, id)
	<-asked
	f.BalanceKnown, f.MirrorErr = f.NodeErr == nil, err
	if err != nil {
		return f, true
	}
	if !f.BalanceKnown {
		f.Balance, f.BalanceKnown = account.Balance, account.BalanceKnown
	}
	switch {
	case len(account.PublicKey) == 0:
	case bytes.Equal(account.PublicKey, nodes.OperatorPublicKey()):
		f.Key = KeyRight
	default:
		f.Key = KeyWrong
	}
	return f, true
}

// atNode asks consensus nodes for the operator's balance, one after the other until one tells, or knows no such account.
func atNode(ctx context.Context, nodes Nodes, id hedera.ID) (node hedera.ID, balance hedera.Tinybar, err error) {
	const maxAsked = 3
	err = errors.New("there is no node")
	for i, at := range nodes.NodesFor(id.LongZero()) {
		if i == maxAsked || i > 0 && ctx.Err() != nil {
			break
		}
		node = at
		if balance, err = nodes.BalanceAt(ctx, id, at); err == nil || errors.Is(err, consensus.ErrNoAccount) {
			break
		}
	}
	return node, balance, err
}

// UnknownToMirror reports whether the mirror node knows no such account.
func (f Finding) UnknownToMirror() bool { return errors.Is(f.MirrorErr, mirror.ErrNotFound) }

// UnknownToNode reports whether a consensus node knows no such account.
func (f Finding) UnknownToNode() bool { return errors.Is(f.NodeErr, consensus.ErrNoAccount) }

// Fits reports whether the network takes what the operator signs, and whether that is known.
func (f Finding) Fits() (fits, known bool) {
	switch {
	case f.UnknownToMirror(), f.UnknownToNode(), f.Key == KeyWrong:
		return false, true
	default:
		return f.Key == KeyRight, f.Key == KeyRight
	}
}

// Trouble says why the network refuses what the operator signs. It is "" if nothing is known to be wrong. It has no secrets.
func (f Finding) Trouble() string {
	switch {
	case f.UnknownToNode() && f.UnknownToMirror(), f.UnknownToNode() && f.MirrorErr != nil, f.UnknownToMirror() && f.NodeErr != nil:
		return "the operator " + f.ID.String() + " is no account of the network"
	case f.UnknownToNode():
		return "a consensus node knows no account " + f.ID.String() + " for the operator, and the mirror node does: they may be of two networks"
	case f.UnknownToMirror():
		return "the mirror node knows no account " + f.ID.String() + " for the operator, and a consensus node does: they may be of two networks"
	case f.Key == KeyWrong:
		return "the operator's key is not the key of its account " + f.ID.String()
	case f.BalanceKnown && f.Balance == 0:
		return "the operator " + f.ID.String() + " has no balance"
	default:
		return ""
	}
}
