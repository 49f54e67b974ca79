package rpc

import (
	"fmt"
	"strings"

	"lockstep/eth"
)

// Rule says what a parameter, or a field of an object parameter, may be. Rules
// are values made by the functions of this package (Address, BlockNumber, AnyOf,
// …); the zero Rule is invalid.
type Rule struct {
	// text is the type error, the phrase after "Invalid parameter 0: ".
	text string
	// check reports whether the value has the right type.
	check func(Value) bool
	// fields, if not nil, checks the inside of an object that passed check.
	fields func(Value) *eth.Error
	// union holds the alternatives of AnyOf.
	union []Rule
}

// Text returns the phrase that an error message uses for the type.
func (r Rule) Text() string { return r.text }

// Matches reports whether the rule accepts the value, fields included.
func (r Rule) Matches(v Value) bool { return r.verify(0, v) == nil }

// Verify checks the parameter at index, which must be present and not null. It is for
// methods whose parameters depend on each other.
func (r Rule) Verify(index int, v Value) *eth.Error { return r.verify(index, v) }

// verify checks the parameter at index; v is present and not null.
func (r Rule) verify(index int, v Value) *eth.Error {
	if !r.check(v) {
		if r.union != nil {
			return eth.ErrInvalidParam(index, "The value passed is not valid: %s. %s", looseText(v), r.text)
		}
		return eth.ErrInvalidParam(index, "%s, value: %s", r.text, v.display())
	}
	if r.fields != nil {
		return r.fields(v)
	}
	return nil
}

// AnyOf accepts what any of the rules accepts.
func AnyOf(rules ...Rule) Rule {
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = r.text
	}
	return Rule{
		text:  strings.Join(texts, " OR "),
		union: rules,
		check: func(v Value) bool {
			for _, r := range rules {
				if r.check(v) {
					return true
				}
			}
			return false
		},
		fields: func(v Value) *eth.Error {
			for _, r := range rules {
				if r.check(v) {
					if r.fields != nil {
						return r.fields(v)
					}
					return nil
				}
			}
			return nil
		},
	}
}

// Also makes the rule accept what another one accepts, too. What both refuse is refused
// in the rule's own words: those that clients know.
func (r Rule) Also(other Rule) Rule {
	both := AnyOf(r, other)
	both.text, both.union = r.text, r.union
	return both
}

// looseText renders a value as established relays do in the message of a union:
// objects without their content, arrays as their elements with commas.
func looseText(v Value) string {
	if !v.IsArray() {
		return looseElement(v)
	}
	var parts []string
	for e := range v.Elements() {
		if len(parts) == maxParams {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, looseElement(e))
	}
	return strings.Join(parts, ",")
}

// looseElement does not go into arrays within arrays: a client could nest them
// deeply, and every level would read the whole text again.
func looseElement(v Value) string {
	switch {
	case v.IsObject():
		return "[object Object]"
	case v.Null():
		return ""
	}
	return v.display()
}

// field is one known member of an object parameter.
type field struct {
	name     string
	rule     Rule
	required bool
	nullable bool // an explicit null counts as absent
}

// schema describes an object parameter.
type schema struct {
	name   string
	fields []field
	closed bool // members that are not listed are an error
}

// verify checks the members of an object in the order of the schema.
func (s schema) verify(v Value) *eth.Error {
	if s.closed {
		if err := s.unknown(v); err != nil {
			return err
		}
	}
	for _, f := range s.fields {
		if err := s.verifyField(f, v.Field(f.name)); err != nil {
			return err
		}
	}
	return nil
}

func (s schema) unknown(v Value) *eth.Error {
	for name := range v.Fields() {
		if !s.knows(name) {
			return eth.ErrInvalidParam(s.quote(name), "Unknown parameter")
		}
	}
	return nil
}

func (s schema) knows(name string) bool {
	for _, f := range s.fields {
		if f.name == name {
			return true
		}
	}
	return false
}

func (s schema) verifyField(f field, v Value) *eth.Error {
	switch {
	case !v.Present() && f.required:
		return eth.ErrMissingParam(s.quote(f.name))
	case !v.Present(), v.Null() && f.nullable:
		return nil
	case v.Null() || !f.rule.check(v):
		return eth.ErrInvalidParam(s.quote(f.name), "%s, value: %s", f.rule.text, v.display())
	}
	if f.rule.fields != nil {
		return f.rule.fields(v)
	}
	return nil
}

func (s schema) quote(name string) string {
	const longest = 128
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return fmt.Sprintf("'%s' for %s", name, s.name)
}
