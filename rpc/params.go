package rpc

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/clip"
	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
)

// Params are the positional parameters of one call. A handler sees them only
// after the method's rules have accepted them; a parameter that was not sent is
// an absent jsonx.Value.
type Params struct {
	args  []jsonx.Value // the first maxParams of them
	count int           // of all that were sent
	raw   jsonx.Value
}

// maxParams is more than any method has. Further parameters are counted, but not kept.
const maxParams = 16

// NewParams splits a params array. It is for calling handlers without a server;
// ok is false if raw is not a JSON array.
func NewParams(raw []byte) (p *Params, ok bool) {
	i := jsonx.SkipSpace(raw, 0)
	end := jsonx.ScanValue(raw, i, 0)
	if end < 0 || raw[i] != '[' || jsonx.SkipSpace(raw, end) != len(raw) {
		return nil, false
	}
	p = new(Params)
	p.set(jsonx.Value(raw[i:end]))
	return p, true
}

// set splits raw if it is an array.
func (p *Params) set(raw jsonx.Value) {
	p.raw = raw
	if !raw.IsArray() || len(raw) == 2 {
		return
	}
	jsonx.ScanArray(raw, 0, 0, func(element []byte) {
		if p.count++; p.count <= maxParams {
			p.args = append(p.args, element)
		}
	})
}

// Len returns how many parameters were sent.
func (p *Params) Len() int { return p.count }

// At returns the parameter at index i, counted from 0.
func (p *Params) At(i int) jsonx.Value {
	if i < 0 || i >= len(p.args) {
		return nil
	}
	return p.args[i]
}

// Raw returns the params member as the client wrote it; absent if there was none.
func (p *Params) Raw() jsonx.Value { return p.raw }

// Given reports whether parameter i was sent and is not null.
func (p *Params) Given(i int) bool { return p.At(i).Given() }

// Text returns string parameter i, "" if it was not sent.
func (p *Params) Text(i int) string { return p.At(i).Text() }

// Bool returns boolean parameter i, false if it was not sent.
func (p *Params) Bool(i int) bool { return p.At(i).Bool() }

// Bytes returns the bytes of hex parameter i.
func (p *Params) Bytes(i int) []byte { return p.At(i).Bytes() }

// Param is the rule for one positional parameter.
type Param struct {
	Rule     Rule
	Required bool
	Nullable bool // null stands for an optional one that is left out, in every profile
}

// Required makes a parameter that must be sent.
func Required(r Rule) Param { return Param{Rule: r, Required: true} }

// Optional makes a parameter that may be left out.
func Optional(r Rule) Param { return Param{Rule: r} }

// Nullable makes a parameter that may be left out or null. It is for methods that the TypeScript relay does not have: their
// callers send null for a parameter that they leave out.
func Nullable(r Rule) Param { return Param{Rule: r, Nullable: true} }

// validate checks the parameters against the method's rules; the first mistake
// is reported. lenient takes null for a parameter that is left out.
func (p *Params) validate(m *Method, lenient bool) *eth.Error {
	if m.AnyParams {
		return nil
	}
	if p.raw.Present() && !p.raw.IsArray() {
		return p.notAnArray(m)
	}
	if p.count > len(m.Params) {
		return eth.ErrTooManyParams(len(m.Params))
	}
	for i, rule := range m.Params {
		v := p.At(i)
		switch {
		case (!v.Present() || v.Null() && lenient) && rule.Required:
			return eth.ErrMissingParam(i)
		case !v.Present():
		case v.Null() && !rule.Required && (lenient || rule.Nullable):
		case v.Null():
			return eth.ErrInvalidParam(i, "The value passed is not valid: null.")
		default:
			if err := rule.Rule.Verify(i, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// notAnArray returns the fault of params in an object. There no parameter has a position, so the first required
// one is missing.
func (p *Params) notAnArray(m *Method) *eth.Error {
	if p.raw.IsObject() && len(m.Params) > 0 && m.Params[0].Required {
		return eth.ErrMissingParam(0)
	}
	return eth.ErrInvalidParams
}

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
