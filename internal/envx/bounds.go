package envx

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

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
