package rpc

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/clip"
	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
)

// Rule says what a parameter, or a member of an object parameter, may be. This package has the rules for JSON's
// own types; the package with the methods says what strings and objects mean. The zero Rule is invalid.
type Rule struct {
	// Phrase is the text of the type error after "Invalid parameter 0: ".
	Phrase string
	// Check reports whether the value has the right type.
	Check func(jsonx.Value) bool
	// Inside, if not nil, checks the inside of a value that passed Check.
	Inside func(jsonx.Value) *eth.Error

	union bool // made by AnyOf
}

// Array accepts any array.
func Array() Rule { return Rule{Phrase: "Expected Array", Check: jsonx.Value.IsArray} }

// Boolean accepts true and false.
func Boolean() Rule { return Rule{Phrase: "Expected boolean type", Check: jsonx.Value.IsBool} }

// Text accepts any string.
func Text() Rule { return Rule{Phrase: "Expected string type", Check: jsonx.Value.IsString} }

// Matches reports whether the rule accepts the value, its inside included.
func (r Rule) Matches(v jsonx.Value) bool { return r.Verify(0, v) == nil }

// Verify checks the parameter at index, which must be present and not null. Methods whose
// parameters depend on each other call it themselves.
func (r Rule) Verify(index int, v jsonx.Value) *eth.Error {
	switch {
	case r.Check(v):
		return r.inside(v)
	case r.union:
		return eth.ErrInvalidParam(index, "The value passed is not valid: %s. %s", looseText(v), r.Phrase)
	}
	return eth.ErrInvalidParam(index, "%s, value: %s", r.Phrase, v.Display())
}

func (r Rule) inside(v jsonx.Value) *eth.Error {
	if r.Inside == nil {
		return nil
	}
	return r.Inside(v)
}

// AnyOf accepts what any of the rules accepts.
func AnyOf(rules ...Rule) Rule {
	phrases := make([]string, len(rules))
	for i, r := range rules {
		phrases[i] = r.Phrase
	}
	match := func(v jsonx.Value) (Rule, bool) {
		for _, r := range rules {
			if r.Check(v) {
				return r, true
			}
		}
		return Rule{}, false
	}
	return Rule{
		Phrase: strings.Join(phrases, " OR "),
		union:  true,
		Check:  func(v jsonx.Value) bool { _, ok := match(v); return ok },
		Inside: func(v jsonx.Value) *eth.Error { r, _ := match(v); return r.inside(v) },
	}
}

// Also makes the rule accept what another one accepts, too. If both refuse a value, the error has the rule's own
// text, which clients know.
func (r Rule) Also(other Rule) Rule {
	both := AnyOf(r, other)
	both.Phrase, both.union = r.Phrase, r.union
	return both
}

// looseText renders a value as the TypeScript relay does in the message of a union:
// objects without their content, arrays as their elements with commas.
func looseText(v jsonx.Value) string {
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
func looseElement(v jsonx.Value) string {
	switch {
	case v.IsObject():
		return "[object Object]"
	case v.Null():
		return ""
	}
	return v.Display()
}

// Field is one known member of an object parameter.
type Field struct {
	Name     string
	Rule     Rule
	Required bool
	Nullable bool // an explicit null counts as absent
}

// Object describes an object parameter.
type Object struct {
	Name   string
	Fields []Field
	Closed bool // members that are not listed are an error
}

// Rule accepts the object. The function more, which may be nil, checks its members against each other.
func (o Object) Rule(phrase string, more func(jsonx.Value) *eth.Error) Rule {
	return Rule{Phrase: phrase, Check: jsonx.Value.IsObject, Inside: func(v jsonx.Value) *eth.Error {
		if err := o.Verify(v); err != nil || more == nil {
			return err
		}
		return more(v)
	}}
}

// Verify checks the members of an object in the order of Fields.
func (o Object) Verify(v jsonx.Value) *eth.Error {
	if o.Closed {
		for name := range v.Fields() {
			if !slices.ContainsFunc(o.Fields, func(f Field) bool { return f.Name == name }) {
				return eth.ErrInvalidParam(o.quote(name), "Unknown parameter")
			}
		}
	}
	found, err := o.find(v)
	if err != nil {
		return err
	}
	for i, f := range o.Fields {
		if err := o.VerifyField(f, found[i]); err != nil {
			return err
		}
	}
	return nil
}

const (
	maxFields  = 24  // of an Object
	maxMembers = 256 // of an object that a client sends, unknown members included
)

// find returns the members of an object that Fields lists, by their place there. Of several members with one name
// it returns the last.
func (o Object) find(v jsonx.Value) (found [maxFields]jsonx.Value, err *eth.Error) {
	count := 0
	jsonx.ScanObject(v, 0, 0, func(key, value []byte) {
		if count++; count > maxMembers {
			return
		}
		for i := range o.Fields {
			if jsonx.IsKey(key, o.Fields[i].Name) {
				found[i] = value
			}
		}
	})
	if count > maxMembers {
		return found, eth.ErrInvalidParam(o.Name, "more than %d members", maxMembers)
	}
	return found, nil
}

// VerifyField checks one member, which may be absent.
func (o Object) VerifyField(f Field, v jsonx.Value) *eth.Error {
	switch {
	case !v.Present() && f.Required:
		return eth.ErrMissingParam(o.quote(f.Name))
	case !v.Present(), v.Null() && f.Nullable:
		return nil
	case v.Null() || !f.Rule.Check(v):
		return eth.ErrInvalidParam(o.quote(f.Name), "%s, value: %s", f.Rule.Phrase, v.Display())
	}
	return f.Rule.inside(v)
}

func (o Object) quote(name string) string {
	const longest = 128
	return fmt.Sprintf("'%s' for %s", clip.Text(name, longest), o.Name)
}
