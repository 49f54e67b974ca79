package rpc

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockstep/internal/envx"
)

// MethodLimits says how often one address may call some methods per window, by a method's name or by
// how several names begin: debug_* means all methods of that namespace, each by itself.
type MethodLimits map[string]int

// UnmarshalText reads name=calls, separated by commas or as a JSON array of such strings.
func (l *MethodLimits) UnmarshalText(text []byte) error {
	var items envx.Strings
	if err := items.UnmarshalText(text); err != nil {
		return err
	}
	*l = nil
	limits := make(MethodLimits, len(items))
	for _, item := range items {
		name, calls, _ := strings.Cut(item, "=")
		name = strings.TrimSpace(name)
		limit, err := strconv.Atoi(strings.TrimSpace(calls))
		if err != nil || limit < 0 || !isMethodPattern(name) {
			return fmt.Errorf("%q is not a method with its calls per window, such as eth_getLogs=50 or debug_*=5", item)
		}
		if _, twice := limits[name]; twice {
			return fmt.Errorf("%s is there twice", name)
		}
		limits[name] = limit
	}
	if len(limits) > 0 {
		*l = limits
	}
	return nil
}

// isMethodPattern reports whether a name can be that of a method, or the beginning of one with a star.
func isMethodPattern(name string) bool {
	stem := strings.TrimSuffix(name, "*")
	return name != "" && strings.IndexFunc(stem, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// String returns the limits as they can be read again, in order of the names.
func (l MethodLimits) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%d", name, l[name])
	}
	return b.String()
}

// MarshalText returns what String does.
func (l MethodLimits) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// of returns the limit of a method: that of its name, or else that of the longest beginning.
func (l MethodLimits) of(method string) (limit int, ok bool) {
	if limit, ok = l[method]; ok || len(l) == 0 {
		return limit, ok
	}
	longest := -1
	for pattern, calls := range l {
		stem, many := strings.CutSuffix(pattern, "*")
		if many && len(stem) > longest && strings.HasPrefix(method, stem) {
			limit, ok, longest = calls, true, len(stem)
		}
	}
	return limit, ok
}

// IdleLimits returns the names and patterns in limits of methods that no method of the table has. The operator is
// told of them: they may be misspelt.
func (d *Dispatcher) IdleLimits(limits MethodLimits) []string {
	return slices.Sorted(maps.Keys(withoutMethods(d, maps.Clone(limits))))
}

// withoutMethods deletes from patterns what a method of the table fits.
func withoutMethods[M ~map[string]V, V any](d *Dispatcher, patterns M) M {
	for pattern := range patterns {
		stem, many := strings.CutSuffix(pattern, "*")
		for name := range d.methods {
			if name == pattern || many && strings.HasPrefix(name, stem) {
				delete(patterns, pattern)
				break
			}
		}
	}
	return patterns
}

// TierLimit returns how many calls of a method of the tier one address may make per window. Tier 0 has the
// methods that no other tier has.
func (c *RateLimitConfig) TierLimit(tier int) int {
	switch tier {
	case 1:
		return c.Tier1
	case 2:
		return c.Tier2
	case 3:
		return c.Tier3
	}
	return c.Default
}

// MethodLimit returns how many calls of a method of the tier one address may make per window: the limit that the
// method has for itself, or else that of its tier.
func (c *RateLimitConfig) MethodLimit(method string, tier int) int {
	if limit, ok := c.Methods.of(method); ok {
		return limit
	}
	return c.TierLimit(tier)
}
