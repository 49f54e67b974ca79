package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"lockstep/txmgr/signers"
)

// Misspelt is a name in the environment that nothing reads and that is near the name of a
// setting.
type Misspelt struct {
	Name, Near string
}

// String asks whoever reads it.
func (m Misspelt) String() string {
	return fmt.Sprintf("%s is no setting; did you mean %s?", m.Name, m.Near)
}

// WarnOfMisspelt tells a log of such names.
func WarnOfMisspelt(log *slog.Logger, all []Misspelt) {
	for _, m := range all {
		log.Warn("a name in the environment is no setting, but similar to one; is it misspelt?", "name", m.Name, "setting", m.Near)
	}
}

// misspeltIn returns those names, in order.
func misspeltIn(values map[string]string) (found []Misspelt) {
	known := make(map[string]bool)
	for _, s := range settings() {
		known[s.name] = true
	}
	for _, s := range idle() {
		known[s.name] = true
	}
	for name, value := range values {
		if known[name] || len(signers.Numbered([]string{name + "=" + value})) > 0 {
			continue
		}
		if near := nearest(known, name); near != "" {
			found = append(found, Misspelt{Name: name, Near: near})
		}
	}
	slices.SortFunc(found, func(a, b Misspelt) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// nearest returns the known name that is nearest to another, "" if none is near. The
// environment holds much that is not for this program: a short name must be nearer.
func nearest(known map[string]bool, name string) (best string) {
	const short, long = 6, 10
	name = strings.ReplaceAll(strings.ToUpper(name), "-", "_")
	limit := 2
	switch {
	case len(name) < short:
		limit = 0
	case len(name) < long:
		limit = 1
	}
	for candidate := range known {
		d := distance(name, strings.ToUpper(candidate), limit)
		if d < limit || d == limit && (best == "" || candidate < best) {
			best, limit = candidate, d
		}
	}
	return best
}

// distance counts the letters that must be left out, put in, changed or swapped with their
// neighbour to make one word of the other; anything above limit is limit+1.
func distance(a, b string, limit int) int {
	if diff := len(a) - len(b); diff > limit || -diff > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit+1)
}
