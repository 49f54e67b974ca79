package filter

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/watch/decode"
)

// Filter is an expression for one event.
type Filter struct {
	said   string
	root   test
	topics map[int][]common.Hash
}

// String is the expression's.
func (f *Filter) String() string { return f.said }

// Match tells whether an event with these arguments, as package decode has them, meets the condition.
func (f *Filter) Match(args map[string]any) bool { return f.root(args) }

// Topics are the values of the event's indexed arguments that the condition allows, by their place in the log: 0 is the first topic. Logs with others do not
// meet it; not all with these do. There is nothing of an argument that may have any value, or more than a node would take.
func (f *Filter) Topics() map[int][]common.Hash { return f.topics }

// maxTopics is how many values of one argument a query names.
const maxTopics = 100

type test func(args map[string]any) bool

// allowed are the topics that a part of an expression allows, by place.
type allowed map[int]map[common.Hash]struct{}

// class is how values of a type are compared.
type class int

const (
	integers class = iota
	addresses
	data  // hex digits
	texts // as they are
	hashes
	booleans
)

func (c class) String() string {
	return []string{"a number", "an address", "bytes", "a text in quotes", "a text in quotes, or 0x and hex digits", "true or false"}[c]
}

// argument is what a name stands for.
type argument struct {
	class class
	typ   string
	path  []string
	topic int // its place among the topics; -1 for none
}

// value finds it. It is nil where the log has none.
func (a argument) value(args map[string]any) any {
	v := args[a.path[0]]
	for _, member := range a.path[1:] {
		m, _ := v.(map[string]any)
		v = m[member]
	}
	return v
}

type binder struct {
	e *Expr
	s *decode.Signature
}

func (b *binder) wrong(n *node, format string, args ...any) error {
	return (&parser{text: b.e.text}).wrong(n.at, format, args...)
}

// Bind compiles an expression for an event.
func (e *Expr) Bind(s *decode.Signature) (*Filter, error) {
	b := &binder{e, s}
	root, topics, err := b.bind(e.root)
	if err != nil {
		return nil, err
	}
	f := &Filter{said: e.said, root: root, topics: map[int][]common.Hash{}}
	for place, set := range topics {
		if len(set) > maxTopics {
			continue
		}
		for topic := range set {
			f.topics[place] = append(f.topics[place], topic)
		}
		slices.SortFunc(f.topics[place], func(a, b common.Hash) int { return bytes.Compare(a[:], b[:]) })
	}
	return f, nil
}

func (b *binder) bind(n *node) (test, allowed, error) {
	switch n.op {
	case "||", "&&":
		return b.several(n)
	case "!":
		kid, _, err := b.bind(n.kids[0])
		return func(args map[string]any) bool { return !kid(args) }, nil, err
	case "name":
		a, err := b.argument(n)
		if err == nil && a.class != booleans {
			err = b.wrong(n, "%s is of type %s and no condition by itself: compare it with something", n.text, a.typ)
		}
		return func(args map[string]any) bool { v, _ := a.value(args).(bool); return v }, only(a, common.Hash{31: 1}), err
	case "value":
		if n.kind != truth {
			return nil, nil, b.wrong(n, "a value is no condition by itself")
		}
		yes := n.text == "true"
		return func(map[string]any) bool { return yes }, nil, nil
	case "in":
		return b.oneOf(n)
	default:
		return b.compare(n)
	}
}

// only allows the one value of an indexed argument.
func only(a argument, topic ...common.Hash) allowed {
	if a.topic < 0 {
		return nil
	}
	set := map[common.Hash]struct{}{}
	for _, t := range topic {
		set[t] = struct{}{}
	}
	return allowed{a.topic: set}
}

func (b *binder) several(n *node) (test, allowed, error) {
	tests := make([]test, len(n.kids))
	var all allowed
	for i, kid := range n.kids {
		t, topics, err := b.bind(kid)
		if err != nil {
			return nil, nil, err
		}
		tests[i] = t
		switch {
		case i == 0:
			all = topics
		case n.op == "&&":
			all = both(all, topics)
		default:
			all = either(all, topics)
		}
	}
	wanted := n.op == "||" // what ends it
	return func(args map[string]any) bool {
		return slices.ContainsFunc(tests, func(t test) bool { return t(args) == wanted }) == wanted
	}, all, nil
}

func both(a, b allowed) allowed {
	all := allowed{}
	for _, x := range []allowed{a, b} {
		for place, set := range x {
			if all[place] == nil {
				all[place] = set
				continue
			}
			common := map[common.Hash]struct{}{}
			for topic := range set {
				if _, in := all[place][topic]; in {
					common[topic] = struct{}{}
				}
			}
			all[place] = common
		}
	}
	return all
}

func either(a, b allowed) allowed {
	all := allowed{}
	for place, set := range a {
		if b[place] == nil {
			continue
		}
		union := map[common.Hash]struct{}{}
		for _, x := range []map[common.Hash]struct{}{set, b[place]} {
			for topic := range x {
				union[topic] = struct{}{}
			}
		}
		all[place] = union
	}
	return all
}

// argument finds what a name means.
func (b *binder) argument(n *node) (argument, error) {
	a := argument{path: strings.Split(n.text, "."), topic: -1}
	arg, there := b.s.Arg(a.path[0])
	typ := arg.Type
	for _, member := range a.path[1:] {
		if there {
			typ, there = typ.Member(member)
		}
	}
	if !there {
		return a, b.wrong(n, "%s has no argument %s", b.s, n.text)
	}
	hashed := false
	if len(a.path) > 1 && arg.Indexed {
		return a, b.wrong(n, "%s is indexed: a log has only its hash", a.path[0])
	}
	if arg.Indexed {
		a.topic = b.s.Place(arg.Name)
		hashed = true
	}
	a.typ = typ.String()
	switch {
	case strings.ContainsAny(a.typ, "[("):
		return a, b.wrong(n, "%s is of type %s, which is not compared", n.text, a.typ)
	case a.typ == "address":
		a.class = addresses
	case a.typ == "bool":
		a.class = booleans
	case (a.typ == "string" || a.typ == "bytes") && hashed:
		a.class = hashes
	case a.typ == "string":
		a.class = texts
	case strings.HasPrefix(a.typ, "bytes"), a.typ == "function":
		a.class = data
	default:
		a.class = integers
	}
	return a, nil
}

// constant is a value as arguments of a class have it, and its topic.
func (b *binder) constant(a argument, n *node) (text string, topic common.Hash, err error) {
	bad := b.wrong(n, "%.80q cannot be compared with %s: want %s", n.text, a.typ, a.class)
	switch a.class {
	case integers:
		v, ok := integer(n)
		if !ok {
			return "", topic, b.wrong(n, "%.80q cannot be compared with %s: want a whole number", n.text, a.typ)
		}
		return v.String(), common.BytesToHash(math.U256Bytes(new(big.Int).Set(v))), nil
	case addresses:
		if n.kind != hexes || !common.IsHexAddress(n.text) {
			return "", topic, b.wrong(n, "%.80q is not an address: want 0x and 40 digits", n.text)
		}
		address := common.HexToAddress(n.text)
		return address.Hex(), common.BytesToHash(address[:]), nil
	case data:
		if n.kind != hexes || len(n.text)%2 != 0 {
			return "", topic, bad
		}
		raw := common.FromHex(n.text)
		return "0x" + common.Bytes2Hex(raw), common.BytesToHash(common.RightPadBytes(raw, 32)[:32]), nil
	case texts:
		if n.kind != quotes {
			return "", topic, bad
		}
		return n.text, topic, nil
	case hashes:
		raw := []byte(n.text)
		switch {
		case a.typ == "bytes" && n.kind == hexes && len(n.text)%2 == 0:
			raw = common.FromHex(n.text)
		case a.typ != "string" || n.kind != quotes:
			return "", topic, bad
		}
		topic = crypto.Keccak256Hash(raw)
		return topic.Hex(), topic, nil
	default:
		if n.kind != truth {
			return "", topic, bad
		}
		if n.text == "true" {
			topic[31] = 1
		}
		return n.text, topic, nil
	}
}

// oneOf compiles "name in list".
func (b *binder) oneOf(n *node) (test, allowed, error) {
	if n.kids[0].op != "name" {
		return nil, nil, b.wrong(n.kids[0], "want the name of an argument before in")
	}
	a, err := b.argument(n.kids[0])
	if err != nil {
		return nil, nil, err
	}
	set, topics := make(map[string]struct{}, len(n.list)), make([]common.Hash, len(n.list))
	for i := range n.list {
		text, topic, err := b.constant(a, &n.list[i])
		if err != nil {
			return nil, nil, err
		}
		set[text], topics[i] = struct{}{}, topic
	}
	return func(args map[string]any) bool {
		v := a.value(args)
		_, in := set[fmt.Sprint(v)]
		return in && v != nil
	}, only(a, topics...), nil
}

// compare compiles a comparison of two arguments, or of one with a value.
func (b *binder) compare(n *node) (test, allowed, error) {
	left, right, op := n.kids[0], n.kids[1], n.op
	if left.op != "name" {
		left, right = right, left
		if turned, is := map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<="}[op]; is {
			op = turned
		}
	}
	if left.op != "name" {
		return nil, nil, b.wrong(n, "two values are compared: want the name of an argument on one side")
	}
	a, err := b.argument(left)
	if err != nil {
		return nil, nil, err
	}
	if a.class != integers && op != "==" && op != "!=" {
		return nil, nil, b.wrong(n, "%s is of type %s, which is only compared with == and !=", left.text, a.typ)
	}
	if right.op == "name" {
		other, err := b.argument(right)
		if err == nil && other.class != a.class {
			err = b.wrong(n, "%s is of type %s and %s of type %s: they are not compared", left.text, a.typ, right.text, other.typ)
		}
		return a.against(op, other.value), nil, err
	}
	text, topic, err := b.constant(a, right)
	if err != nil {
		return nil, nil, err
	}
	var all allowed
	if op == "==" {
		all = only(a, topic)
	}
	return a.against(op, func(map[string]any) any { return text }), all, nil
}

// against compares an argument with what else there is of its class. What a log does not have meets nothing but !=.
func (a argument) against(op string, other func(args map[string]any) any) test {
	if a.class != integers {
		return func(args map[string]any) bool {
			x, y := a.value(args), other(args)
			return (x != nil && y != nil && fmt.Sprint(x) == fmt.Sprint(y)) == (op == "==")
		}
	}
	return func(args map[string]any) bool {
		x, ok := new(big.Int).SetString(fmt.Sprint(a.value(args)), 10)
		y, too := new(big.Int).SetString(fmt.Sprint(other(args)), 10)
		if !ok || !too {
			return op == "!="
		}
		switch order := x.Cmp(y); op {
		case "==":
			return order == 0
		case "!=":
			return order != 0
		case "<":
			return order < 0
		case "<=":
			return order <= 0
		case ">":
			return order > 0
		default:
			return order >= 0
		}
	}
}
