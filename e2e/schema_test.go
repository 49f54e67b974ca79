package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// schemas checks values against JSON schemas: the part of the language that the
// document of the relay uses. A word that it does not know fails the test, so that
// nothing is taken for checked that is not.
type schemas map[string]map[string]any

var errNoMatch = errors.New("none of the alternatives fits")

// check returns what is wrong with a value. The path says where it stands.
func (s schemas) check(schema map[string]any, value any, path string) error {
	for word, argument := range schema {
		if err := s.word(schema, word, argument, value); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	switch v := value.(type) {
	case map[string]any:
		return s.members(schema, v, path)
	case []any:
		return s.elements(schema, v, path)
	}
	return nil
}

// word checks a value against one word of a schema.
func (s schemas) word(schema map[string]any, word string, argument, value any) error {
	text, isText := value.(string)
	number, isNumber := value.(float64)
	list, isList := value.([]any)
	switch word {
	case "title", "description", "properties", "additionalProperties", "propertyNames", "required", "items":
	case "$ref":
		name := strings.TrimPrefix(argument.(string), "#/components/schemas/")
		target, ok := s[name]
		if !ok {
			return fmt.Errorf("no schema %s", name)
		}
		return s.check(target, value, name)
	case "anyOf", "oneOf":
		fitting := s.fitting(argument.([]any), value)
		if fitting == 0 || word == "oneOf" && fitting > 1 {
			return fmt.Errorf("%w %.300s: %d of %d", errNoMatch, show(value), fitting, len(argument.([]any)))
		}
	case "type":
		if !isOfType(argument.(string), value) {
			return fmt.Errorf("want %s, got %.100s", argument, show(value))
		}
	case "enum":
		if !slices.ContainsFunc(argument.([]any), func(one any) bool { return reflect.DeepEqual(one, value) }) {
			return fmt.Errorf("want one of %v, got %.100s", argument, show(value))
		}
	case "pattern":
		if isText && !regexp.MustCompile(argument.(string)).MatchString(text) {
			return fmt.Errorf("%.100q does not match %s", text, argument)
		}
	case "minimum":
		if isNumber && number < argument.(float64) {
			return fmt.Errorf("%v is less than %v", number, argument)
		}
	case "maximum":
		if isNumber && number > argument.(float64) {
			return fmt.Errorf("%v is more than %v", number, argument)
		}
	case "maxItems":
		if isList && float64(len(list)) > argument.(float64) {
			return fmt.Errorf("%d items, more than %v", len(list), argument)
		}
	default:
		return fmt.Errorf("the schema has a word %q that this test does not know: %v", word, schema)
	}
	return nil
}

func (s schemas) fitting(alternatives []any, value any) (n int) {
	for _, one := range alternatives {
		if s.check(one.(map[string]any), value, "") == nil {
			n++
		}
	}
	return n
}

func (s schemas) members(schema map[string]any, object map[string]any, path string) error {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := object[name.(string)]; !ok {
			return fmt.Errorf("%s: %s is missing", path, name)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	names, _ := schema["propertyNames"].(map[string]any)
	for name, value := range object {
		at := path + "." + name
		if err := s.check(names, name, at+" (name)"); err != nil {
			return err
		}
		own, known := properties[name].(map[string]any)
		if !known {
			switch others := schema["additionalProperties"].(type) {
			case bool:
				if !others {
					return fmt.Errorf("%s is unknown", at)
				}
			case map[string]any:
				own = others
			}
		}
		if err := s.check(own, value, at); err != nil {
			return err
		}
	}
	return nil
}

func (s schemas) elements(schema map[string]any, list []any, path string) error {
	items, _ := schema["items"].(map[string]any)
	for i, value := range list {
		if err := s.check(items, value, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func isOfType(name string, value any) bool {
	switch v := value.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	case []any:
		return name == "array"
	default:
		return name == "object"
	}
}

func show(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// The checker itself: what fits, and what does not.
func TestSchemas(t *testing.T) {
	t.Parallel()
	s := schemas{"Digit": {"type": "string", "pattern": "^[0-9]$"}}
	tests := []struct{ schema, fits, fails string }{
		{`{"type":"null"}`, `null`, `0`},
		{`{"type":"integer","minimum":0,"maximum":9}`, `9`, `1.5`},
		{`{"type":"integer","minimum":0,"maximum":9}`, `0`, `10`},
		{`{"type":"number","minimum":0}`, `0.5`, `-1`},
		{`{"enum":["0x0",false]}`, `false`, `true`},
		{`{"$ref":"#/components/schemas/Digit"}`, `"1"`, `"x"`},
		{`{"type":"array","items":{"$ref":"#/components/schemas/Digit"},"maxItems":1}`, `["1"]`, `["1","2"]`},
		{`{"type":"array","items":{"$ref":"#/components/schemas/Digit"}}`, `[]`, `["1",2]`},
		{`{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}`, `{"a":true}`, `{}`},
		{`{"type":"object","properties":{"a":{"type":"boolean"}},"additionalProperties":false}`, `{}`, `{"b":1}`},
		{`{"type":"object","properties":{"a":{"type":"boolean"}}}`, `{"b":1}`, `{"a":1}`},
		{`{"type":"object","propertyNames":{"$ref":"#/components/schemas/Digit"},"additionalProperties":{"type":"string"}}`, `{"1":"x"}`, `{"x":"x"}`},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, `{"1":"x"}`, `{"1":1}`},
		{`{"anyOf":[{"type":"string"},{"type":"boolean"}]}`, `true`, `1`},
		{`{"oneOf":[{"type":"string"},{"pattern":"^a"}]}`, `"b"`, `"a"`},
		{`{"$ref":"#/components/schemas/Digit"}`, `"2"`, `{}`},
	}
	for _, test := range tests {
		schema := parse(t, test.schema).(map[string]any)
		if err := s.check(schema, parse(t, test.fits), "value"); err != nil {
			t.Errorf("%s refuses %s: %v", test.schema, test.fits, err)
		}
		if err := s.check(schema, parse(t, test.fails), "value"); err == nil {
			t.Errorf("%s accepts %s", test.schema, test.fails)
		}
	}
	for _, schema := range []string{`{"format":"date"}`, `{"$ref":"#/components/schemas/None"}`} {
		if err := s.check(parse(t, schema).(map[string]any), "x", "value"); err == nil {
			t.Errorf("%s is taken for understood", schema)
		}
	}
}

func parse(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}
