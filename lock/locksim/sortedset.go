package locksim

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

func byScore(x, y member) int {
	return cmp.Or(cmp.Compare(x.score, y.score), strings.Compare(x.name, y.name))
}

func (v *value) find(name string) int {
	return slices.IndexFunc(v.set, func(m member) bool { return m.name == name })
}

func (s *store) add(a []string) (any, error) {
	if len(a)%2 != 1 {
		return nil, errSyntax
	}
	var scores []float64
	for i := 1; i < len(a); i += 2 {
		score, err := strconv.ParseFloat(a[i], 64)
		if err != nil {
			return nil, failure("ERR value is not a valid float")
		}
		scores = append(scores, score)
	}
	v, err := s.writable(a[0], "zset")
	if err != nil {
		return nil, err
	}
	added := int64(0)
	for i, score := range scores {
		name := a[2+2*i]
		if at := v.find(name); at >= 0 {
			v.set[at].score = score
		} else {
			v.set = append(v.set, member{score, name})
			added++
		}
	}
	slices.SortFunc(v.set, byScore)
	return added, nil
}

func (s *store) remove(a []string) (any, error) {
	v, err := s.typed(a[0], "zset")
	if v == nil || err != nil {
		return int64(0), err
	}
	n := int64(0)
	for _, name := range a[1:] {
		if at := v.find(name); at >= 0 {
			s.touch(a[0])
			v.set = slices.Delete(v.set, at, at+1)
			n++
		}
	}
	if len(v.set) == 0 {
		delete(s.data, a[0])
	}
	return n, nil
}

func scoreText(f float64) string { return strconv.FormatFloat(f, 'g', 17, 64) }

func (s *store) score(a []string) (any, error) {
	v, err := s.typed(a[0], "zset")
	if v == nil || err != nil {
		return nil, err
	}
	if at := v.find(a[1]); at >= 0 {
		return scoreText(v.set[at].score), nil
	}
	return nil, nil
}

// limit reads one end of a range of scores.
func limit(text string) (float64, error) {
	switch text {
	case "-inf":
		return math.Inf(-1), nil
	case "+inf":
		return math.Inf(1), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, failure("ERR min or max is not a float")
	}
	return f, nil
}

// between returns the members with scores between two limits.
func (s *store) between(a []string) ([]member, error) {
	low, err := limit(a[1])
	if err != nil {
		return nil, err
	}
	high, err := limit(a[2])
	if err != nil {
		return nil, err
	}
	v, err := s.typed(a[0], "zset")
	if v == nil || err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(v.set), func(m member) bool { return m.score < low || m.score > high }), nil
}

func (s *store) countRange(a []string) (any, error) {
	found, err := s.between(a)
	return int64(len(found)), err
}

func (s *store) rangeByScore(a []string) (any, error) {
	found, err := s.between(a)
	if err != nil {
		return nil, err
	}
	scores := false
	for i := 3; i < len(a); i++ {
		switch strings.ToUpper(a[i]) {
		case "WITHSCORES":
			scores = true
		case "LIMIT":
			if i+2 >= len(a) {
				return nil, errSyntax
			}
			skip, err1 := strconv.Atoi(a[i+1])
			most, err2 := strconv.Atoi(a[i+2])
			if err1 != nil || err2 != nil || skip < 0 || most < 0 {
				return nil, errNotNumber
			}
			found = found[min(skip, len(found)):]
			found = found[:min(most, len(found))]
			i += 2
		default:
			return nil, errSyntax
		}
	}
	out := []any{}
	for _, m := range found {
		if out = append(out, m.name); scores {
			out = append(out, scoreText(m.score))
		}
	}
	return out, nil
}

// rangeByRank knows the whole set only, which is what the scripts ask for.
func (s *store) rangeByRank(a []string) (any, error) {
	if len(a) != 3 || a[1] != "0" || a[2] != "-1" {
		return nil, errSyntax
	}
	v, err := s.typed(a[0], "zset")
	out := []any{}
	if v != nil {
		for _, m := range v.set {
			out = append(out, m.name)
		}
	}
	return out, err
}
