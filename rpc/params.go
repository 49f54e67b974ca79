package rpc

import (
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
