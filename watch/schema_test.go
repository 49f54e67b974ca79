package watch

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"lockstep/internal/must"
)

// TestFileSchemaHasEverySetting holds the schema against the reader: what the reader says it knows is what the schema has.
func TestFileSchemaHasEverySetting(t *testing.T) {
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Additional *bool                      `json:"additionalProperties"`
	}
	var schema struct {
		object
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	must.Do(t, json.Unmarshal(FileSchema, &schema))
	known := regexp.MustCompile(`has no setting "unknown": want one of (.*)`)
	for what, text := range map[string]string{
		"": "unknown: 1", "chain": "chains: [{unknown: 1}]", "watch": "watches: [{unknown: 1}]",
		"factory": "watches: [{factory: {unknown: 1}}]", "action": "watches: [{actions: [{unknown: 1}]}]",
		"transactions": "watches: [{transactions: {unknown: 1}}]",
	} {
		o := schema.object
		if what != "" {
			o = object{}
			if err := json.Unmarshal(schema.Defs[what], &o); err != nil {
				t.Fatal(what, err)
			}
		}
		var want string
		for i, name := range slices.Sorted(maps.Keys(o.Properties)) {
			if i > 0 {
				want += ", "
			}
			want += name
		}
		_, err := Read([]byte(text), "watch.yaml")
		found := known.FindStringSubmatch(fmt.Sprint(err))
		if found == nil || found[1] != want {
			t.Errorf("%q: the reader knows %q, the schema %s", what, found, want)
		}
		if o.Additional == nil || *o.Additional {
			t.Errorf("%q: the schema takes what the reader refuses", what)
		}
	}
}
