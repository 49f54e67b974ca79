package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/caarlos0/env/v11"
)

// parse fills a struct of settings.
func parse[T any](target *T, environ []string) error {
	values := valuesOf(environ)
	if err := env.ParseWithOptions(target, env.Options{Environment: values}); err != nil {
		_, err = malformed[T](values, err)
		return err
	}
	return nil
}

// malformed returns the settings of T whose values cannot be read, and an error with a line for each. The error of the parser names
// fields, and several settings have fields of one name. So each value is read alone.
func malformed[T any](values map[string]string, all error) (names []string, _ error) {
	var errs []error
	tried := map[string]bool{}
	for _, s := range collect(reflect.ValueOf(*new(T)), "") {
		value, set := values[s.name]
		if !set || tried[s.name] {
			continue
		}
		tried[s.name] = true
		if err := env.ParseWithOptions(new(T), env.Options{Environment: map[string]string{s.name: value}}); err != nil {
			names, errs = append(names, s.name), append(errs, inWords(s.name, err))
		}
	}
	if len(errs) == 0 {
		return nil, all
	}
	return names, errors.Join(errs...)
}

// inWords says why the value of one setting cannot be read.
func inWords(name string, err error) error {
	var all env.AggregateError
	if errors.As(err, &all) && len(all.Errors) > 0 {
		err = all.Errors[0]
	}
	var parse env.ParseError
	if !errors.As(err, &parse) {
		return err // of a file that cannot be read: it has the name
	}
	var number *strconv.NumError
	switch {
	case !errors.As(parse.Err, &number):
		return fmt.Errorf("%s: %w", name, parse.Err)
	case number.Func == "ParseBool":
		return fmt.Errorf("%s: %q is neither true nor false", name, number.Num)
	case errors.Is(number.Err, strconv.ErrRange):
		return fmt.Errorf("%s: the number %s is too large", name, number.Num)
	case number.Func == "ParseFloat":
		return fmt.Errorf("%s: %q is not a number, such as 0.5", name, number.Num)
	default:
		return fmt.Errorf("%s: %q is not a whole number, such as 10", name, number.Num)
	}
}
