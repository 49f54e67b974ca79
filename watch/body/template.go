package body

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
	"unicode"
)

// maxTemplate bounds a template, in bytes.
const maxTemplate = 64 << 10

// printed is the function that each printed value goes through. A template cannot name it.
const printed = "_printed"

// allowed are the functions that a template may name. What could print into the text past the escape, or take for ever, is not among them.
var allowed = []string{"and", "or", "not", "len", "index", "eq", "ne", "lt", "le", "gt", "ge", "short", "units", "time", "json"}

var functions = template.FuncMap{
	printed: func(any) string { return "" },
	"short": short,
	"units": shifted,
	"time":  moment,
	"json":  func(v any) (jsonText, error) { text, err := json.Marshal(v); return jsonText(text), err },
}

// jsonText is JSON as it is.
type jsonText string

// Check says what is wrong with a template.
func Check(text string) error {
	_, err := compile(text)
	return err
}

// compile reads a template, refuses what is not allowed, and has each value that is printed escaped.
func compile(text string) (*template.Template, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("a template has a maximum of %d bytes", maxTemplate)
	}
	t, err := template.New("template").Funcs(functions).Parse(text)
	if err != nil {
		return nil, err
	}
	if len(t.Templates()) != 1 {
		return nil, fmt.Errorf("a template is one: no define, no block")
	}
	return t, guard(t.Tree, t.Root)
}

func guard(tree *parse.Tree, n parse.Node) error {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, child := range n.Nodes {
			if err := guard(tree, child); err != nil {
				return err
			}
		}
	case *parse.ActionNode:
		if err := known(n.Pipe); err != nil {
			return err
		}
		if len(n.Pipe.Decl) == 0 {
			name := parse.NewIdentifier(printed).SetTree(tree).SetPos(n.Pos)
			n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{name}})
		}
	case *parse.IfNode:
		return branch(tree, &n.BranchNode)
	case *parse.WithNode:
		return branch(tree, &n.BranchNode)
	case *parse.RangeNode:
		if slices.ContainsFunc(n.Pipe.Cmds, numeric) {
			return fmt.Errorf("range goes over lists and names of the event, not over numbers")
		}
		return branch(tree, &n.BranchNode)
	case *parse.TemplateNode:
		return fmt.Errorf("a template is one: no template, no block")
	}
	return nil
}

func branch(tree *parse.Tree, n *parse.BranchNode) error {
	if err := known(n.Pipe); err != nil {
		return err
	}
	if err := guard(tree, n.List); err != nil {
		return err
	}
	if n.ElseList == nil {
		return nil
	}
	return guard(tree, n.ElseList)
}

// numeric tells whether a command is a number.
func numeric(c *parse.CommandNode) bool {
	return slices.ContainsFunc(c.Args, func(n parse.Node) bool { return n.Type() == parse.NodeNumber && len(c.Args) == 1 })
}

// known refuses functions that are not allowed, and variables that are numbers: range would count up to them.
func known(n parse.Node) error {
	switch n := n.(type) {
	case *parse.PipeNode:
		if len(n.Decl) > 0 && slices.ContainsFunc(n.Cmds, numeric) {
			return fmt.Errorf("a variable cannot be a number")
		}
		for _, c := range n.Cmds {
			for _, a := range c.Args {
				if err := known(a); err != nil {
					return err
				}
			}
		}
	case *parse.IdentifierNode:
		if !slices.Contains(allowed, n.Ident) {
			return fmt.Errorf("a template cannot call %s: want one of %s", n.Ident, strings.Join(allowed, ", "))
		}
	case *parse.ChainNode:
		return known(n.Node)
	}
	return nil
}

// said is a value as text. A missing one is nothing.
func said(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case jsonText:
		return string(v)
	case json.Number:
		return v.String()
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(text)
	}
}

// plain is a text in one line, without what cannot be seen: nothing in it can look like a line of ours, or turn the direction of one.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		default:
			return r
		}
	}, text)
}

// short is the beginning and the end of a long text, as of an address or a hash.
func short(v any) string {
	text := []rune(said(v))
	if len(text) <= 12 {
		return string(text)
	}
	return string(text[:6]) + "…" + string(text[len(text)-4:])
}

// maxDecimals is above what any token has.
const maxDecimals = 255

// shifted is a number with so many decimals, as amounts of tokens have: units "1500000000000000000" 18 is 1.5. What is no number stays as it is.
func shifted(v any, decimals int) string {
	text := said(v)
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || decimals <= 0 || decimals > maxDecimals || len(text) > 80 {
		return text
	}
	digits := new(big.Int).Abs(n).String()
	if missing := decimals + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	at := len(digits) - decimals
	out := digits[:at]
	if rest := strings.TrimRight(digits[at:], "0"); rest != "" {
		out += "." + rest
	}
	if n.Sign() < 0 {
		out = "-" + out
	}
	return out
}

// moment is a time in seconds since 1970 as RFC 3339 writes it.
func moment(v any) string {
	seconds, err := json.Number(said(v)).Int64()
	if err != nil {
		return said(v)
	}
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339)
}
