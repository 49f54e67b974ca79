package consensus

import (
	"fmt"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
)

// How an operator is chosen.
const (
	chooseBySender = "sender"
	chooseInTurn   = "rotate"
)

// operators are the accounts that pay for submissions which name no payer.
type operators struct {
	all    []*Operator // the main one first
	inTurn bool
	next   atomic.Uint64
}

// main returns the main operator, or nil when there is none.
func (o *operators) main() *Operator {
	if len(o.all) == 0 {
		return nil
	}
	return o.all[0]
}

// find returns the operator with an account, or nil.
func (o *operators) find(id hedera.ID) *Operator {
	for _, operator := range o.all {
		if operator.ID == id {
			return operator
		}
	}
	return nil
}

// pick returns the operator that pays for a sender's next transaction, or nil. By sender
// it is a rendezvous, as with nodes: an operator that is added or removed moves only the
// senders that will be or were its own.
func (o *operators) pick(sender common.Address) *Operator {
	if len(o.all) < 2 {
		return o.main()
	}
	if o.inTurn {
		return o.all[(o.next.Add(1)-1)%uint64(len(o.all))]
	}
	var chosen *Operator
	var top uint64
	// Turned around, so that operators are spread over a node's senders, too.
	key := mix(^senderKey(sender))
	for _, operator := range o.all {
		if score := mix(key ^ nodeSeed(operator.ID)); chosen == nil || score > top {
			chosen, top = operator, score
		}
	}
	return chosen
}

// operators returns all configured operators, the main one first.
func (c *Config) operators() (*operators, error) {
	main, err := c.operator()
	if err != nil {
		return nil, err
	}
	more, err := c.Payers.operators()
	if err != nil {
		return nil, err
	}
	switch c.Payers.Choice {
	case "", chooseBySender, chooseInTurn:
	default:
		return nil, fmt.Errorf("OPERATOR_CHOICE %q: want %s or %s", c.Payers.Choice, chooseBySender, chooseInTurn)
	}
	set := &operators{inTurn: c.Payers.Choice == chooseInTurn}
	if main == nil {
		if len(more) > 0 {
			return nil, fmt.Errorf("OPERATOR_ACCOUNTS is set but OPERATOR_ID_MAIN is not")
		}
		return set, nil
	}
	set.all = append(set.all, main)
	for i, operator := range more {
		for _, other := range set.all {
			if other.ID == operator.ID {
				return nil, fmt.Errorf("OPERATOR_ACCOUNTS: Entry %d: account %s is there already", i, operator.ID)
			}
		}
		set.all = append(set.all, operator)
	}
	return set, nil
}
