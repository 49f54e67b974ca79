package filter

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bounds of an expression.
const (
	maxText   = 4096
	maxDepth  = 32
	maxValues = 100_000 // of all its lists
)

// Error is a mistake, and where it is.
type Error struct {
	Column int // of the text, from 1, in characters
	Why    string
}

func (e *Error) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Why) }

// Expr is an expression that was read, for whatever event.
type Expr struct {
	text string
	root *node
	said string // of the text, with what its files have
}

// String is the same for the same expression with the same lists.
func (e *Expr) String() string { return e.said }

// node is a part of an expression. Its operator is one of the text, "in", "name", or "value".
type node struct {
	op   string
	at   int // in the text, in bytes
	kids []*node
	text string  // of a name, or of a value
	kind literal // of a value
	list []node  // values of "in"
}

type literal int

const (
	number literal = iota
	hexes          // 0x and digits
	quotes         // a text
	truth          // true or false
)

// Parse reads an expression. Files gives the text of a file that it names.
func Parse(text string, files func(name string) (string, error)) (*Expr, error) {
	p := &parser{text: text, files: files}
	if len(text) > maxText || !utf8.ValidString(text) {
		return nil, &Error{1, fmt.Sprintf("a condition is a text of at most %d bytes", maxText)}
	}
	root, err := p.or(0)
	if err == nil {
		if p.space(); p.at < len(text) {
			err = p.wrong(p.at, "%.20q is not expected here", text[p.at:])
		}
	}
	if err != nil {
		return nil, err
	}
	return &Expr{text: text, root: root, said: strings.Join(append(strings.Fields(text), p.read...), " ")}, nil
}

// parser reads from left to right.
type parser struct {
	text   string
	at     int
	files  func(name string) (string, error)
	values int
	read   []string // hashes of files
}

func (p *parser) wrong(at int, format string, args ...any) error {
	return &Error{utf8.RuneCountInString(p.text[:min(at, len(p.text))]) + 1, fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// take moves behind a text if it comes next.
func (p *parser) take(what string) bool {
	p.space()
	if !strings.HasPrefix(p.text[p.at:], what) {
		return false
	}
	p.at += len(what)
	return true
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$.]*`)
	digits     = regexp.MustCompile(`^-?[0-9][0-9_]*(\.[0-9]+)?([eE][0-9]{1,3})?`)
	hexDigits  = regexp.MustCompile(`^0[xX][0-9a-fA-F]*`)
	fileName   = regexp.MustCompile(`^[^\s()&|!,"\[\]]+`)
)

// word takes what an expression matches at the place.
func (p *parser) word(of *regexp.Regexp) string {
	p.space()
	found := of.FindString(p.text[p.at:])
	p.at += len(found)
	return found
}

func (p *parser) or(depth int) (*node, error) { return p.chain("||", depth, p.and) }

func (p *parser) and(depth int) (*node, error) { return p.chain("&&", depth, p.not) }

// chain reads parts with an operator between them.
func (p *parser) chain(op string, depth int, part func(depth int) (*node, error)) (*node, error) {
	p.space()
	n := &node{op: op, at: p.at}
	for {
		kid, err := part(depth)
		if err != nil {
			return nil, err
		}
		if n.kids = append(n.kids, kid); !p.take(op) {
			break
		}
	}
	if len(n.kids) == 1 {
		return n.kids[0], nil
	}
	return n, nil
}

func (p *parser) not(depth int) (*node, error) {
	p.space()
	at := p.at
	if depth > maxDepth {
		return nil, p.wrong(at, "it nests deeper than %d", maxDepth)
	}
	switch {
	case strings.HasPrefix(p.text[at:], "!") && !strings.HasPrefix(p.text[at:], "!="):
		p.at++
		kid, err := p.not(depth + 1)
		return &node{op: "!", at: at, kids: []*node{kid}}, err
	case p.take("("):
		inner, err := p.or(depth + 1)
		if err == nil && !p.take(")") {
			err = p.wrong(p.at, "a closing parenthesis is missing")
		}
		return inner, err
	default:
		return p.comparison()
	}
}

func (p *parser) comparison() (*node, error) {
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	p.space()
	at := p.at
	for _, op := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if p.take(op) {
			right, err := p.operand()
			return &node{op: op, at: at, kids: []*node{left, right}}, err
		}
	}
	if word := identifier.FindString(p.text[at:]); word == "in" {
		p.at += len(word)
		n := &node{op: word, at: at, kids: []*node{left}}
		n.list, err = p.list()
		return n, err
	}
	if p.take("=") {
		return nil, p.wrong(at, "want == to compare")
	}
	return left, nil
}

func (p *parser) operand() (*node, error) {
	p.space()
	at := p.at
	if name := p.word(identifier); name != "" {
		if name == "true" || name == "false" {
			return &node{op: "value", at: at, text: name, kind: truth}, nil
		}
		return &node{op: "name", at: at, text: name}, nil
	}
	return p.value()
}

// value reads a value that is no boolean.
func (p *parser) value() (*node, error) {
	p.space()
	n := &node{op: "value", at: p.at}
	if p.take(`"`) {
		end := strings.IndexByte(p.text[p.at:], '"')
		if end < 0 {
			return nil, p.wrong(n.at, "the text does not end")
		}
		n.kind, n.text = quotes, p.text[p.at:p.at+end]
		p.at += end + 1
		return n, nil
	}
	if n.text = p.word(hexDigits); n.text != "" {
		n.kind = hexes
	} else if n.text = p.word(digits); n.text == "" {
		if p.at == len(p.text) {
			return nil, p.wrong(p.at, "it ends where a value is wanted")
		}
		return nil, p.wrong(p.at, "want the name of an argument or a value, not %.20q", p.text[p.at:])
	}
	if rest := identifier.FindString(p.text[p.at:]); rest != "" {
		return nil, p.wrong(n.at, "%q is not a number", n.text+rest)
	}
	return n, nil
}

// list reads "[1, 2]", or a file.
func (p *parser) list() ([]node, error) {
	if !p.take("[") {
		return p.file()
	}
	var all []node
	for !p.take("]") {
		if len(all) > 0 && !p.take(",") {
			return nil, p.wrong(p.at, "want a comma or ] in the list")
		}
		v, err := p.operand()
		if err == nil && v.op == "name" {
			err = p.wrong(v.at, "a list has values, not the argument %s", v.text)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, *v)
	}
	return all, nil
}

func (p *parser) file() (all []node, err error) {
	p.space()
	at := p.at
	name := ""
	if strings.HasPrefix(p.text[at:], `"`) {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		name = v.text
	} else {
		name = p.word(fileName)
	}
	if name == "" {
		return nil, p.wrong(at, "want a list in brackets, or a file")
	}
	text, err := p.files(name)
	if err != nil {
		return nil, p.wrong(at, "%v", err)
	}
	p.read = append(p.read, fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16])
	line := 0
	for row := range strings.Lines(text) {
		line++
		row, _, _ = strings.Cut(row, "#")
		for entry := range strings.SplitSeq(row, ",") {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			v := node{op: "value", at: at, text: entry, kind: quotes}
			switch {
			case hexDigits.FindString(entry) == entry:
				v.kind = hexes
			case digits.FindString(entry) == entry:
				v.kind = number
			case entry == "true" || entry == "false":
				v.kind = truth
			default:
				v.text = strings.Trim(entry, `"`)
			}
			if all = append(all, v); p.values+len(all) > maxValues {
				return nil, p.wrong(at, "%s, line %d: the lists of a condition have at most %d values", name, line, maxValues)
			}
		}
	}
	p.values += len(all)
	return all, nil
}

// integer is the value of a number like 1_000, 1.5e18 or 0xff.
func integer(n *node) (*big.Int, bool) {
	text := strings.ReplaceAll(n.text, "_", "")
	if n.kind == hexes {
		if len(text) > 2+64 {
			return nil, false
		}
		return new(big.Int).SetString(text[2:], 16)
	}
	r, ok := new(big.Rat).SetString(text)
	if n.kind != number || !ok || !r.IsInt() || r.Num().BitLen() > 512 {
		return nil, false
	}
	return r.Num(), true
}
