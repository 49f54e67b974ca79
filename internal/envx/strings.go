package envx

import (
	"encoding/json"
	"fmt"
	"strings"
)

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
