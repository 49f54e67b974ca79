package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas are those of the relay's document, by name.
type schemas map[string]any

// check returns what is wrong with a value, whose schema may refer to those of the document.
func (s schemas) check(schema map[string]any, value any, what string) error {
	const document = "document.json"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(document, map[string]any{"components": map[string]any{"schemas": map[string]any(s)}, "schema": schema}); err != nil {
		return err
	}
	compiled, err := compiler.Compile(document + "#/schema")
	if err != nil {
		return err
	}
	if err := compiled.Validate(value); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func show(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

func parse(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}
