package decode

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a type. Solidity's compiler stays far below them.
const (
	// maxNesting is how deep lists, arrays and tuples may be in each other. Values nest as their types do, so it bounds the stack, too.
	maxNesting = 16
	// maxArgs is how many arguments an event or function may have, and maxMembers how many a tuple may.
	maxArgs, maxMembers = 20, 256
	// maxName and maxText bound names and signatures in bytes: both stand in every event.
	maxName, maxText = 128, 4096
	// maxInline is how many bytes an array of fixed length may take where it stands: no log has as many.
	maxInline = 1 << 26
)

const wordSize = 32

// kind is what a type is.
type kind uint8

const (
	kindBool kind = iota
	kindAddress
	kindUint
	kindInt
	kindFixedBytes
	kindBytes
	kindString
	kindList  // of any length
	kindArray // of a fixed length
	kindTuple
)

// Type is the type of an argument, as the ABI knows it.
type Type struct {
	kind    kind
	size    int // bits of an integer, bytes of fixed bytes, entries of an array
	elem    *Type
	members []Arg
	text    string
	inline  int  // bytes that it takes where it stands
	dynamic bool // an offset stands there, and the value elsewhere
	nesting int
}

// String returns the canonical form, "(uint256,bytes32[])[2]".
func (t *Type) String() string { return t.text }

// Member returns the type of a member of a tuple.
func (t *Type) Member(name string) (*Type, bool) {
	for _, m := range t.members {
		if m.Name == name {
			return m.Type, true
		}
	}
	return nil, false
}

// Arg is an argument of an event or a function, or a member of a tuple.
type Arg struct {
	Name    string
	Type    *Type
	Indexed bool
}

var scalar = regexp.MustCompile(`^(uint|int|bytes)([0-9]{0,3})$`)

// plainType reads the name of a type that is neither a list nor a tuple.
func plainType(name string) (*Type, error) {
	t := &Type{text: name, inline: wordSize}
	switch name {
	case "bool":
		t.kind = kindBool
		return t, nil
	case "address":
		t.kind = kindAddress
		return t, nil
	case "function":
		t.kind, t.size = kindFixedBytes, 24
		return t, nil
	case "string", "bytes":
		t.kind, t.dynamic = kindString, true
		if name == "bytes" {
			t.kind = kindBytes
		}
		return t, nil
	}
	parts := scalar.FindStringSubmatch(name)
	if parts == nil {
		return nil, fmt.Errorf("%.60q is not a type of Solidity's ABI", name)
	}
	size := 256
	if parts[2] != "" {
		size, _ = strconv.Atoi(parts[2]) // three digits
	}
	t.size = size
	if parts[1] == "bytes" {
		if size < 1 || size > wordSize {
			return nil, fmt.Errorf("%s is not a type of bytes", name)
		}
		t.kind = kindFixedBytes
		return t, nil
	}
	if size < 8 || size > 256 || size%8 != 0 || parts[2] != strconv.Itoa(size) && parts[2] != "" {
		return nil, fmt.Errorf("%s is not an integer type", name)
	}
	t.kind = kindUint
	if parts[1] == "int" {
		t.kind = kindInt
	}
	t.text = parts[1] + strconv.Itoa(size)
	return t, nil
}

// tupleOf makes a tuple. Members without names are called arg0, arg1 and so on.
func tupleOf(members []Arg) (*Type, error) {
	if len(members) == 0 || len(members) > maxMembers {
		return nil, fmt.Errorf("a tuple has %d members: want 1 to %d", len(members), maxMembers)
	}
	t := &Type{kind: kindTuple, members: slices.Clone(members)}
	if err := name(t.members); err != nil {
		return nil, err
	}
	texts := make([]string, len(members))
	for i, m := range t.members {
		texts[i] = m.Type.text
		t.dynamic = t.dynamic || m.Type.dynamic
		t.inline += m.Type.inline
		t.nesting = max(t.nesting, m.Type.nesting+1)
	}
	t.text = "(" + strings.Join(texts, ",") + ")"
	return t, t.bounded()
}

// bounded checks what a type takes, and settles that of a dynamic one.
func (t *Type) bounded() error {
	if t.nesting > maxNesting {
		return fmt.Errorf("types nest deeper than %d", maxNesting)
	}
	if t.inline > maxInline {
		return errors.New("an array is longer than any log")
	}
	if len(t.text) > maxText {
		return fmt.Errorf("a type takes more than %d letters", maxText)
	}
	if t.dynamic {
		t.inline = wordSize
	}
	return nil
}

// name names the arguments that have no name, and refuses a name that two have.
func name(args []Arg) error {
	seen := make(map[string]bool, len(args))
	for i := range args {
		args[i].Name = cmp.Or(args[i].Name, "arg"+strconv.Itoa(i))
		if len(args[i].Name) > maxName {
			return fmt.Errorf("%.20s… is no name: it has more than %d letters", args[i].Name, maxName)
		}
		if seen[args[i].Name] {
			return fmt.Errorf("two arguments are called %.60s", args[i].Name)
		}
		seen[args[i].Name] = true
	}
	return nil
}

// arrays wraps a type in the lists and arrays that brackets behind it name, as "[2][]".
func arrays(t *Type, brackets string) (*Type, error) {
	for brackets != "" {
		end := strings.IndexByte(brackets, ']')
		if brackets[0] != '[' || end < 0 {
			return nil, fmt.Errorf("%.60q is not the length of a list", brackets)
		}
		length := brackets[1:end]
		brackets = brackets[end+1:]
		list := &Type{kind: kindList, elem: t, text: t.text + "[" + length + "]", dynamic: true, nesting: t.nesting + 1}
		if length != "" {
			n, err := strconv.ParseUint(length, 10, 27)
			if err != nil || n == 0 {
				return nil, fmt.Errorf("[%.60s] is not the length of an array", length)
			}
			list.kind, list.size, list.dynamic = kindArray, int(n), t.dynamic
			list.inline = int(n) * t.inline
			list.text = t.text + "[" + strconv.Itoa(list.size) + "]"
		}
		if err := list.bounded(); err != nil {
			return nil, err
		}
		t = list
	}
	return t, nil
}

// typeOf reads a type as an ABI writes it: "tuple[2]" with its members beside.
func typeOf(text string, members []Arg) (*Type, error) {
	base, brackets := text, ""
	if at := strings.IndexByte(text, '['); at >= 0 {
		base, brackets = text[:at], text[at:]
	}
	var t *Type
	var err error
	if base == "tuple" {
		t, err = tupleOf(members)
	} else {
		t, err = plainType(base)
	}
	if err != nil {
		return nil, err
	}
	return arrays(t, brackets)
}
