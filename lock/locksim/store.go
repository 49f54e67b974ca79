package locksim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// status is a reply such as OK; failure is one that begins with a code such as ERR.
type (
	status  string
	failure string
)

func (f failure) Error() string { return string(f) }

const (
	errSyntax    failure = "ERR syntax error"
	errWrongType failure = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errMemory    failure = "OOM command not allowed when used memory > 'maxmemory'."
	errNotNumber failure = "ERR value is not an integer or out of range"
)

// value is what a key has: one of four kinds.
type value struct {
	kind    string // string, list or hash
	text    string
	list    []string
	hash    map[string]string
	expires time.Time // zero = never
}

func (v *value) clone() *value {
	c := *v
	c.list, c.hash = slices.Clone(v.list), maps.Clone(v.hash)
	return &c
}

// change is what a command or script did: what each key had before.
type change map[string]*value

// kept bounds the changes that a failover can take back.
const kept = 64

// store is the data of one Redis server: the commands that the lock uses, with the replies that Redis
// gives. It is not safe for concurrent use.
type store struct {
	now     func() time.Time
	data    map[string]*value
	full    bool // no memory is left
	publish func(channel, payload string)

	present change   // what the present script or command has changed
	changes []change // the last ones, oldest first
	refuse  bool     // the present script began without memory
	wrote   bool     // … and has run a command that writes
}

func newStore(now func() time.Time, publish func(channel, payload string)) *store {
	return &store{now: now, data: map[string]*value{}, publish: publish}
}

// begin starts a script or a command that stands alone; what it changes is taken back as a whole.
func (s *store) begin() { s.present, s.refuse, s.wrote = change{}, s.full, false }

func (s *store) end() {
	if len(s.present) == 0 {
		return
	}
	if s.changes = append(s.changes, s.present); len(s.changes) > kept {
		s.changes = s.changes[1:]
	}
}

// takeBack undoes the last n changes, as a failover to a replica that has not got them does.
func (s *store) takeBack(n int) {
	for ; n > 0 && len(s.changes) > 0; n-- {
		last := s.changes[len(s.changes)-1]
		s.changes = s.changes[:len(s.changes)-1]
		for key, before := range last {
			if before == nil {
				delete(s.data, key)
			} else {
				s.data[key] = before
			}
		}
	}
}

func (s *store) clear() { s.data, s.changes = map[string]*value{}, nil }

// get returns the value of a key that has not expired, or nil.
func (s *store) get(key string) *value {
	v := s.data[key]
	if v != nil && !v.expires.IsZero() && !s.now().Before(v.expires) {
		s.touch(key)
		delete(s.data, key)
		return nil
	}
	return v
}

// typed is get for a kind.
func (s *store) typed(key, kind string) (*value, error) {
	v := s.get(key)
	if v != nil && v.kind != kind {
		return nil, errWrongType
	}
	return v, nil
}

// touch notes what a key had before its first change.
func (s *store) touch(key string) {
	if _, known := s.present[key]; known || s.present == nil {
		return
	}
	if v := s.data[key]; v != nil {
		s.present[key] = v.clone()
	} else {
		s.present[key] = nil
	}
}

// writable is typed for a change: a key that is not there is made.
func (s *store) writable(key, kind string) (*value, error) {
	v, err := s.typed(key, kind)
	if err != nil {
		return nil, err
	}
	s.touch(key)
	if v == nil {
		v = &value{kind: kind}
		s.data[key] = v
	}
	return v, nil
}

func (s *store) drop(key string) int64 {
	if s.get(key) == nil {
		return 0
	}
	s.touch(key)
	delete(s.data, key)
	return 1
}

// commands has how many words each command needs at least, besides its name, and whether it needs memory.
var commands = map[string]struct {
	least int
	grows bool
	run   func(s *store, a []string) (any, error)
}{
	"TIME": {0, false, func(s *store, _ []string) (any, error) {
		t := s.now()
		return []any{strconv.FormatInt(t.Unix(), 10), strconv.Itoa(t.Nanosecond() / 1000)}, nil
	}},
	"PUBLISH": {2, false, func(s *store, a []string) (any, error) {
		s.publish(a[0], a[1])
		return int64(1), nil
	}},
	"EXISTS": {1, false, func(s *store, a []string) (any, error) {
		return s.count(a, func(k string) bool { return s.get(k) != nil }), nil
	}},
	"DEL": {1, false, func(s *store, a []string) (any, error) {
		return s.count(a, func(k string) bool { return s.drop(k) == 1 }), nil
	}},
	"GET":  {1, false, (*store).getText},
	"MGET": {1, false, (*store).getTexts},
	"SET":  {2, true, (*store).setText},
	"PTTL": {1, false, func(s *store, a []string) (any, error) {
		switch v := s.get(a[0]); {
		case v == nil:
			return int64(-2), nil
		case v.expires.IsZero():
			return int64(-1), nil
		default:
			return v.expires.Sub(s.now()).Milliseconds(), nil
		}
	}},
	"PEXPIRE": {2, false, func(s *store, a []string) (any, error) {
		ms, err := strconv.ParseInt(a[1], 10, 64)
		if err != nil {
			return nil, errNotNumber
		}
		v := s.get(a[0])
		if v == nil {
			return int64(0), nil
		}
		s.touch(a[0])
		v.expires = s.now().Add(time.Duration(ms) * time.Millisecond)
		return int64(1), nil
	}},
	"LRANGE":  {3, false, (*store).wholeList},
	"LREM":    {3, false, (*store).removeEntry},
	"RPUSH":   {2, true, (*store).push},
	"HSET":    {3, true, (*store).setField},
	"HGETALL": {1, false, (*store).fields},
	"HDEL":    {2, false, (*store).dropFields},
}

// reads are the commands that write nothing.
var reads = map[string]bool{
	"TIME": true, "PUBLISH": true, "EXISTS": true, "GET": true, "MGET": true, "PTTL": true, "LRANGE": true, "HGETALL": true,
}

// do runs one command.
func (s *store) do(words []string) (any, error) {
	name := strings.ToUpper(words[0])
	c, known := commands[name]
	switch {
	case !known:
		return nil, failure("ERR unknown command '" + words[0] + "'")
	case len(words)-1 < c.least:
		return nil, failure("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
	case c.grows && s.refuse && !s.wrote: // a script that has begun to write may go on
		return nil, errMemory
	}
	s.wrote = s.wrote || !reads[name]
	return c.run(s, words[1:])
}

func (s *store) count(keys []string, is func(string) bool) (n int64) {
	for _, k := range keys {
		if is(k) {
			n++
		}
	}
	return n
}

func (s *store) getText(a []string) (any, error) {
	v, err := s.typed(a[0], "string")
	if v == nil || err != nil {
		return nil, err
	}
	return v.text, nil
}

func (s *store) getTexts(a []string) (any, error) {
	out := make([]any, len(a))
	for i, key := range a {
		if v, err := s.typed(key, "string"); err == nil && v != nil {
			out[i] = v.text
		}
	}
	return out, nil
}

func (s *store) setText(a []string) (any, error) {
	expires, keep, now := time.Time{}, false, s.get(a[0])
	for i := 2; i < len(a); i++ {
		switch word := strings.ToUpper(a[i]); {
		case word == "NX" && now != nil, word == "XX" && now == nil:
			return nil, nil
		case word == "NX", word == "XX":
		case word == "KEEPTTL":
			keep = true
		case word == "PX" && i+1 < len(a):
			i++
			ms, err := strconv.ParseInt(a[i], 10, 64)
			if err != nil || ms <= 0 {
				return nil, failure("ERR invalid expire time in 'set' command")
			}
			expires = s.now().Add(time.Duration(ms) * time.Millisecond)
		default:
			return nil, errSyntax
		}
	}
	if keep && now != nil {
		expires = now.expires
	}
	s.touch(a[0])
	s.data[a[0]] = &value{kind: "string", text: a[1], expires: expires}
	return status("OK"), nil
}

// wholeList knows the whole list only, which is what the scripts ask for.
func (s *store) wholeList(a []string) (any, error) {
	if a[1] != "0" || a[2] != "-1" {
		return nil, errSyntax
	}
	v, err := s.typed(a[0], "list")
	out := []any{}
	if v != nil {
		for _, entry := range v.list {
			out = append(out, entry)
		}
	}
	return out, err
}

// removeEntry removes the first entry that is equal.
func (s *store) removeEntry(a []string) (any, error) {
	if a[1] != "1" {
		return nil, errSyntax
	}
	v, err := s.typed(a[0], "list")
	if v == nil || err != nil {
		return int64(0), err
	}
	i := slices.Index(v.list, a[2])
	if i < 0 {
		return int64(0), nil
	}
	s.touch(a[0])
	if v.list = slices.Delete(slices.Clone(v.list), i, i+1); len(v.list) == 0 {
		delete(s.data, a[0])
	}
	return int64(1), nil
}

func (s *store) push(a []string) (any, error) {
	v, err := s.writable(a[0], "list")
	if err != nil {
		return nil, err
	}
	v.list = append(v.list, a[1:]...)
	return int64(len(v.list)), nil
}

func (s *store) setField(a []string) (any, error) {
	v, err := s.writable(a[0], "hash")
	if err != nil {
		return nil, err
	}
	if v.hash == nil {
		v.hash = map[string]string{}
	}
	before := len(v.hash)
	for i := 1; i+1 < len(a); i += 2 {
		v.hash[a[i]] = a[i+1]
	}
	return int64(len(v.hash) - before), nil
}

func (s *store) fields(a []string) (any, error) {
	v, err := s.typed(a[0], "hash")
	out := []any{}
	if v != nil {
		for _, name := range slices.Sorted(maps.Keys(v.hash)) {
			out = append(out, name, v.hash[name])
		}
	}
	return out, err
}

func (s *store) dropFields(a []string) (any, error) {
	v, err := s.typed(a[0], "hash")
	if v == nil || err != nil {
		return int64(0), err
	}
	s.touch(a[0])
	before := len(v.hash)
	for _, name := range a[1:] {
		delete(v.hash, name)
	}
	if len(v.hash) == 0 {
		delete(s.data, a[0])
	}
	return int64(before - len(v.hash)), nil
}
