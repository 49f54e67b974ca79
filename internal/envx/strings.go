package envx

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Strings is a list that may be written as a JSON array of strings
// (["eth","net"]) or separated by commas (eth,net). Empty text is the empty list.
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
		if err := json.Unmarshal([]byte(s), &items); err != nil {
			return fmt.Errorf("read list: %w", err)
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
