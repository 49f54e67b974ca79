package envx

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Millis is a duration that may be written as a bare number of milliseconds
// ("250", "60_000") or with units as time.ParseDuration reads them ("1m30s").
type Millis time.Duration

// Duration returns the setting as a time.Duration.
func (m Millis) Duration() time.Duration { return time.Duration(m) }

// String returns the duration with units.
func (m Millis) String() string { return time.Duration(m).String() }

// MarshalText returns the text form with units.
func (m Millis) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads either form. A bare number may be negative, for settings
// that give that a meaning.
func (m *Millis) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64); err == nil {
		if n > math.MaxInt64/int64(time.Millisecond) || n < math.MinInt64/int64(time.Millisecond) {
			return fmt.Errorf("duration of %s ms is out of range", s)
		}
		*m = Millis(time.Duration(n) * time.Millisecond)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is neither a number of milliseconds nor a duration such as 1m30s", s)
	}
	*m = Millis(d)
	return nil
}

// ChainID is a chain id setting, decimal or 0x-hexadecimal.
type ChainID uint64

// UnmarshalText reads either form.
func (c *ChainID) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a chain id: want a positive number, decimal or 0x-hexadecimal", s)
	}
	*c = ChainID(n)
	return nil
}

// MarshalText writes 0x-hexadecimal.
func (c ChainID) MarshalText() ([]byte, error) { return []byte(c.Hex()), nil }

// Hex returns the 0x form that JSON-RPC uses.
func (c ChainID) Hex() string { return "0x" + strconv.FormatUint(uint64(c), 16) }

// Strings is a list that may be written as a JSON array of strings and numbers
// (["eth","net"], [429,503]) or separated by commas (eth,net). Empty text is the empty
// list.
type Strings []string

// String returns the list with commas.
func (l Strings) String() string { return strings.Join(l, ",") }

// MarshalText returns the list with commas.
func (l Strings) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads either form. Blanks around the items are dropped, and so
// are empty items.
func (l *Strings) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	var items []string
	if strings.HasPrefix(s, "[") {
		var list []item
		if err := json.Unmarshal([]byte(s), &list); err != nil {
			return fmt.Errorf("read list: %w", err)
		}
		for _, i := range list {
			items = append(items, string(i))
		}
	} else {
		items = strings.Split(s, ",")
	}
	*l = Strings{}
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" {
			*l = append(*l, item)
		}
	}
	return nil
}

// item is a string or a number in JSON.
type item string

// UnmarshalJSON takes the digits of a number as they stand.
func (i *item) UnmarshalJSON(text []byte) error {
	var n json.Number // takes a string for a number, too, if it looks like one
	if text[0] == '"' || json.Unmarshal(text, &n) != nil {
		return json.Unmarshal(text, (*string)(i))
	}
	*i = item(n)
	return nil
}

// Check compares the numbers and durations of a struct of settings with the bounds that the tags min and max of their fields have, in
// the form of the environment:
//
//	Timeout Millis `env:"TIMEOUT" envDefault:"500" min:"1" max:"1m"`
func Check(settings any) error {
	return errors.Join(check(reflect.ValueOf(settings))...)
}

func check(settings reflect.Value) (errs []error) {
	for i := range settings.NumField() {
		field, value := settings.Type().Field(i), settings.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		least, most := field.Tag.Get("min"), field.Tag.Get("max")
		switch {
		case name == "" && value.Kind() == reflect.Struct:
			errs = append(errs, check(value)...)
		case least != "" && !(number(value) >= bound(value, least)), most != "" && !(number(value) <= bound(value, most)): // NaN is neither
			want := least + " to " + most
			if most == "" {
				want = "at least " + least
			}
			errs = append(errs, fmt.Errorf("%s: must be %s, is %v", name, want, value))
		}
	}
	return errs
}

// number is a value as a number; durations are in nanoseconds.
func number(v reflect.Value) float64 {
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	}
	return v.Float()
}

// bound reads a bound of a value.
func bound(v reflect.Value, text string) float64 {
	if v.Type() == reflect.TypeFor[Millis]() {
		var m Millis
		if err := m.UnmarshalText([]byte(text)); err != nil {
			panic(err) // of a tag
		}
		return float64(m)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return n
}
