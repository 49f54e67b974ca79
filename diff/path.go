package diff

import (
	"path"
	"strconv"
	"strings"
)

// keys is the place of a value: names of members, and indices as "[3]".
type keys []string

func (k keys) String() string {
	var b strings.Builder
	for i, key := range k {
		if i > 0 && !strings.HasPrefix(key, "[") {
			b.WriteByte('.')
		}
		b.WriteString(key)
	}
	return b.String()
}

// general is the place with all indices alike, for counting.
func (k keys) general() string {
	out := make(keys, len(k))
	for i, key := range k {
		if strings.HasPrefix(key, "[") {
			key = "[*]"
		}
		out[i] = key
	}
	return out.String()
}

// with returns the place of a member below. The result shares nothing with its siblings.
func (k keys) with(key string) keys { return append(k[:len(k):len(k)], key) }

func (k keys) at(i int) keys { return k.with("[" + strconv.Itoa(i) + "]") }

// pattern names places, of one method or of all.
type pattern struct {
	method string // with * as in path.Match
	keys   keys
}

func parsePatterns(texts []string) []pattern {
	var out []pattern
	for _, text := range texts {
		method, place, found := strings.Cut(text, ":")
		if !found {
			method, place = "*", text
		}
		out = append(out, pattern{method, parseKeys(place)})
	}
	return out
}

func parseKeys(text string) (out keys) {
	for part := range strings.SplitSeq(text, ".") {
		name, indices, _ := strings.Cut(part, "[")
		if name != "" {
			out = append(out, name)
		}
		if indices != "" {
			for index := range strings.SplitSeq(strings.TrimSuffix(indices, "]"), "][") {
				out = append(out, "["+index+"]")
			}
		}
	}
	return out
}

// names tells whether one of the patterns names the place.
func names(patterns []pattern, method string, place keys) bool {
	for _, p := range patterns {
		if p.match(method, place) {
			return true
		}
	}
	return false
}

func (p pattern) match(method string, place keys) bool {
	if len(p.keys) != len(place) {
		return false
	}
	if ok, err := path.Match(p.method, method); err != nil || !ok {
		return false
	}
	for i, key := range p.keys {
		if key != place[i] && key != "*" && (key != "[*]" || !strings.HasPrefix(place[i], "[")) {
			return false
		}
	}
	return true
}
