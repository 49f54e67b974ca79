package decode

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// maxIndexed is how many arguments of an event can be indexed: a log has four topics, and the
// first one is the signature's hash.
const maxIndexed = 3

// maxArgs bounds how many ways there are to tell which arguments are indexed. Solidity's compiler
// has room for fewer.
const maxArgs = 20

// maxDepth bounds how deep tuples may nest, so that a signature cannot exhaust the stack.
const maxDepth = 8

// Signature is an event as its contract declares it.
type Signature struct {
	Name     string
	Selector common.Hash // keccak256 of the canonical form
	args     abi.Arguments
	marked   int // arguments that are marked as indexed
}

// String returns the canonical form, "Released(address,uint256)".
func (s *Signature) String() string {
	types := make([]string, len(s.args))
	for i, a := range s.args {
		types[i] = a.Type.String()
	}
	return s.Name + "(" + strings.Join(types, ",") + ")"
}

// Args returns the names of the arguments in order.
func (s *Signature) Args() []string {
	names := make([]string, len(s.args))
	for i, a := range s.args {
		names[i] = a.Name
	}
	return names
}

// TypeOf returns the type of an argument by its name, as Solidity writes it; "" if there is none.
func (s *Signature) TypeOf(name string) string {
	for _, a := range s.args {
		if a.Name == name {
			return a.Type.String()
		}
	}
	return ""
}

// FromABI takes an event from a parsed ABI.
func FromABI(e abi.Event) (*Signature, error) {
	if e.Anonymous {
		return nil, fmt.Errorf("event %s is anonymous: its logs do not say which event they are", e.Name)
	}
	args := make(abi.Arguments, len(e.Inputs))
	copy(args, e.Inputs)
	return build(e.RawName, args)
}

// Parse reads one signature. The word "event" before it and a semicolon after it are allowed.
func Parse(text string) (*Signature, error) {
	text = strings.TrimSuffix(strings.TrimSpace(text), ";")
	text = strings.TrimSpace(strings.TrimPrefix(text, "event "))
	p := parser{rest: text}
	name := p.word()
	if !identifier.MatchString(name) {
		return nil, fmt.Errorf("%q is not an event signature: want a name and its arguments, like Released(address to,uint256 amount)", text)
	}
	params, err := p.tuple(0)
	if err == nil && strings.TrimSpace(p.rest) != "" {
		err = fmt.Errorf("%q follows the arguments", strings.TrimSpace(p.rest))
	}
	if err != nil {
		return nil, fmt.Errorf("event signature %q: %w", text, err)
	}
	args := make(abi.Arguments, len(params))
	for i, param := range params {
		t, err := abi.NewType(param.Type, "", param.Components)
		if err != nil {
			return nil, fmt.Errorf("event signature %q: argument %d: %w", text, i, err)
		}
		args[i] = abi.Argument{Name: param.Name, Type: t, Indexed: param.Indexed}
	}
	return build(name, args)
}

// ParseList reads several signatures, separated by commas or semicolons outside parentheses.
func ParseList(text string) ([]*Signature, error) {
	var list []*Signature
	var errs []error
	depth, start := 0, 0
	take := func(end int) {
		part := strings.TrimSpace(text[start:end])
		start = end + 1
		if part == "" {
			return
		}
		s, err := Parse(part)
		if err != nil {
			errs = append(errs, err)
			return
		}
		list = append(list, s)
	}
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case (c == ',' || c == ';') && depth == 0:
			take(i)
		}
	}
	take(len(text))
	return list, errors.Join(errs...)
}

func build(name string, args abi.Arguments) (*Signature, error) {
	if len(args) > maxArgs {
		return nil, fmt.Errorf("event %s has %d arguments, the maximum is %d", name, len(args), maxArgs)
	}
	s := &Signature{Name: name, args: args}
	seen := map[string]bool{}
	for i := range args {
		if args[i].Name == "" {
			args[i].Name = "arg" + strconv.Itoa(i)
		}
		if err := sized(args[i].Type); err != nil {
			return nil, fmt.Errorf("event %s: argument %s: %w", name, args[i].Name, err)
		}
		if seen[args[i].Name] {
			return nil, fmt.Errorf("event %s: two arguments are called %s", name, args[i].Name)
		}
		seen[args[i].Name] = true
		if args[i].Indexed {
			s.marked++
		}
	}
	if s.marked > maxIndexed {
		return nil, fmt.Errorf("event %s: %d arguments are indexed, a log has room for %d", name, s.marked, maxIndexed)
	}
	s.Selector = crypto.Keccak256Hash([]byte(s.String()))
	return s, nil
}

// sized refuses widths that Solidity does not have, which the library lets pass.
func sized(t abi.Type) error {
	switch t.T {
	case abi.IntTy, abi.UintTy:
		if t.Size < 8 || t.Size > 256 || t.Size%8 != 0 {
			return fmt.Errorf("%s is not an integer type", t.String())
		}
	case abi.FixedBytesTy:
		if t.Size < 1 || t.Size > 32 {
			return fmt.Errorf("%s is not a type of bytes", t.String())
		}
	case abi.SliceTy, abi.ArrayTy:
		return sized(*t.Elem)
	case abi.TupleTy:
		for _, elem := range t.TupleElems {
			if err := sized(*elem); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)
	arraySizes = regexp.MustCompile(`^(\[[0-9]*\])*`)
	aliases    = regexp.MustCompile(`^(uint|int)(\[|$)`)
)

// parser reads the arguments of a signature from left to right.
type parser struct{ rest string }

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

// word takes what stands before the next space, comma or parenthesis.
func (p *parser) word() string {
	p.space()
	end := strings.IndexAny(p.rest, " \t\n,()")
	if end < 0 {
		end = len(p.rest)
	}
	word := p.rest[:end]
	p.rest = p.rest[end:]
	return word
}

// take removes one character if it comes next.
func (p *parser) take(c byte) bool {
	p.space()
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// tuple reads "(type name, …)".
func (p *parser) tuple(depth int) ([]abi.ArgumentMarshaling, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("tuples nest deeper than %d", maxDepth)
	}
	if !p.take('(') {
		return nil, errors.New("the arguments need parentheses")
	}
	var list []abi.ArgumentMarshaling
	if p.take(')') {
		return list, nil
	}
	for {
		argument, err := p.argument(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, argument)
		switch {
		case p.take(','):
		case p.take(')'):
			return list, nil
		default:
			return nil, errors.New("a closing parenthesis is missing")
		}
	}
}

func (p *parser) argument(depth int) (abi.ArgumentMarshaling, error) {
	var a abi.ArgumentMarshaling
	p.space()
	written := p.rest
	if !strings.HasPrefix(p.rest, "(") {
		a.Type = p.word()
	}
	if a.Type == "tuple" || a.Type == "" {
		p.space()
		if !strings.HasPrefix(p.rest, "(") {
			return a, fmt.Errorf("an argument has no type at %q", written)
		}
		members, err := p.tuple(depth + 1)
		if err != nil {
			return a, err
		}
		for i := range members {
			if members[i].Name == "" {
				members[i].Name = "arg" + strconv.Itoa(i)
			}
		}
		sizes := arraySizes.FindString(p.rest)
		p.rest = p.rest[len(sizes):]
		a.Type, a.Components = "tuple"+sizes, members
	}
	a.Type = aliases.ReplaceAllString(a.Type, "${1}256${2}")
	a.InternalType = a.Type
	for {
		word := p.word()
		switch {
		case word == "":
			return a, nil
		case word == "indexed":
			a.Indexed = true
		case a.Name == "" && identifier.MatchString(word):
			a.Name = word
		default:
			return a, fmt.Errorf("%q is not the name of an argument", word)
		}
	}
}
