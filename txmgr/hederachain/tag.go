package hederachain

import (
	"fmt"
	"strings"

	"lockstep/internal/hedera"
)

// place is a Hedera transaction id and the node that it is for.
type place struct {
	id   hedera.TransactionID
	node hedera.ID
}

func (p place) String() string { return p.id.String() + " " + p.node.String() }

// tag is what an attempt needs besides its bytes.
type tag struct {
	place
	before *place // of the transaction before it; nil: none was on its way
}

func (t tag) String() string {
	if t.before == nil {
		return t.place.String()
	}
	return t.place.String() + " " + t.before.String()
}

func parseTag(text string) (tag, error) {
	words := strings.Split(text, " ")
	if len(words) != 2 && len(words) != 4 {
		return tag{}, fmt.Errorf("tag %q: want an id and a node, once or twice", text)
	}
	var places []place
	for len(words) > 0 {
		id, err := hedera.ParseTransactionID(words[0])
		if err != nil {
			return tag{}, err
		}
		node, err := hedera.ParseID(words[1])
		if err != nil {
			return tag{}, err
		}
		places, words = append(places, place{id, node}), words[2:]
	}
	t := tag{place: places[0]}
	if len(places) == 2 {
		t.before = &places[1]
	}
	return t, nil
}
