package decode

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// maxIndexed is how many arguments of an event can be indexed: a log has four topics, and the
// first one is the signature's hash.
const maxIndexed = 3

// Signature is an event as its contract declares it.
type Signature struct {
	Name     string
	Selector common.Hash // keccak256 of the canonical form; zero for an anonymous event
	// Anonymous says that its logs do not have the selector as their first topic: any log of the contract with as many topics as it has indexed
	// arguments may be one.
	Anonymous bool
	args      []Arg
	marked    int // arguments that are marked as indexed
}

// AnonymousMark ends the canonical form of an anonymous event.
const AnonymousMark = " anonymous"

// String returns the canonical form, "Released(address,uint256)".
func (s *Signature) String() string { return s.text(false) }

func (s *Signature) text(marks bool) string {
	types := make([]string, len(s.args))
	for i, a := range s.args {
		types[i] = a.Type.String()
		if marks && a.Indexed {
			types[i] += " indexed"
		}
	}
	text := s.Name + "(" + strings.Join(types, ",") + ")"
	if s.Anonymous {
		text += AnonymousMark
	}
	return text
}

// Declared is the canonical form with the marks of what is indexed, "Released(address indexed,uint256)".
func (s *Signature) Declared() string { return s.text(true) }

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

// Arg returns an argument by its name.
func (s *Signature) Arg(name string) (Arg, bool) {
	for _, a := range s.args {
		if a.Name == name {
			return a, true
		}
	}
	return Arg{}, false
}

// Place is where an indexed argument stands among the topics of a log; -1: it is not indexed. The event's own topic is at 0.
func (s *Signature) Place(name string) int {
	at := bit(!s.Anonymous)
	for _, a := range s.args {
		switch {
		case a.Name == name && a.Indexed:
			return at
		case a.Indexed:
			at++
		}
	}
	return -1
}

// Indexed is how many arguments are marked as indexed.
func (s *Signature) Indexed() int { return s.marked }

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Parse reads one signature. The word "event" before it and a semicolon after it are allowed.
func Parse(text string) (*Signature, error) {
	text = strings.TrimSuffix(strings.TrimSpace(text), ";")
	text = strings.TrimSpace(strings.TrimPrefix(text, "event "))
	p := parser{rest: text}
	name := p.word()
	if !identifier.MatchString(name) {
		return nil, fmt.Errorf("%q is not a signature: want a name and its arguments, like Released(address to,uint256 amount)", text)
	}
	params, err := p.tuple(0)
	anonymous := false
	if strings.TrimSpace(p.rest) == strings.TrimSpace(AnonymousMark) {
		anonymous, p.rest = true, ""
	}
	if err == nil && strings.TrimSpace(p.rest) != "" {
		err = fmt.Errorf("%q follows the arguments", strings.TrimSpace(p.rest))
	}
	if err != nil {
		return nil, fmt.Errorf("signature %q: %w", text, err)
	}
	return build(name, params, anonymous)
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

func build(called string, args []Arg, anonymous bool) (*Signature, error) {
	if len(called) > maxName {
		return nil, fmt.Errorf("%.20s… is no name: it has more than %d letters", called, maxName)
	}
	if len(args) > maxArgs {
		return nil, fmt.Errorf("%s has %d arguments, the maximum is %d", called, len(args), maxArgs)
	}
	s := &Signature{Name: called, args: args, Anonymous: anonymous}
	if err := name(args); err != nil {
		return nil, fmt.Errorf("%s: %w", called, err)
	}
	for _, a := range args {
		if a.Indexed {
			s.marked++
		}
	}
	if room := maxIndexed + bit(anonymous); s.marked > room {
		return nil, fmt.Errorf("event %s: %d arguments are indexed, a log has room for %d", called, s.marked, room)
	}
	text := s.String()
	if len(text) > maxText {
		return nil, fmt.Errorf("%s has more than %d letters", called, maxText)
	}
	if !anonymous {
		s.Selector = crypto.Keccak256Hash([]byte(text))
	}
	return s, nil
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)
	arraySizes = regexp.MustCompile(`^(\[[0-9]*\])*`)
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
func (p *parser) tuple(depth int) ([]Arg, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("tuples nest deeper than %d", maxNesting)
	}
	if !p.take('(') {
		return nil, errors.New("the arguments need parentheses")
	}
	var list []Arg
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

func (p *parser) argument(depth int) (a Arg, err error) {
	p.space()
	written, text := p.rest, ""
	var members []Arg
	if !strings.HasPrefix(p.rest, "(") {
		text = p.word()
	}
	if text == "tuple" || text == "" {
		p.space()
		if !strings.HasPrefix(p.rest, "(") {
			return a, fmt.Errorf("an argument has no type at %.60q", written)
		}
		if members, err = p.tuple(depth + 1); err != nil {
			return a, err
		}
		sizes := arraySizes.FindString(p.rest)
		p.rest = p.rest[len(sizes):]
		text = "tuple" + sizes
	}
	if a.Type, err = typeOf(text, members); err != nil {
		return a, err
	}
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
