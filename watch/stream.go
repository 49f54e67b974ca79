package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/ledger"
	"lockstep/watch/decode"
)

// Told is a message in the order of the stream.
type Told struct {
	Cursor int64 `json:"cursor"`
	Event
}

// news wakes who waits for newer messages of the stream. One goroutine looks for them, however many wait.
type news struct {
	readers atomic.Int64

	mu      sync.Mutex
	cursor  int64
	changed chan struct{} // closed when the cursor is another
}

func newNews() *news { return &news{changed: make(chan struct{})} }

// next returns what is closed when the cursor is another.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

func (n *news) set(cursor int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cursor != n.cursor {
		n.cursor = cursor
		close(n.changed)
		n.changed = make(chan struct{})
	}
}

// sequence gives committed messages their cursors in the stream, and tells the readers of new ones. Other processes of the fleet give
// cursors, too, so it looks now and then.
func (s *Service) sequence(ctx context.Context) error {
	for ctx.Err() == nil {
		given, err := s.db.Sequence(ctx)
		if err == nil && s.news.readers.Load() > 0 {
			var cursor int64
			if cursor, err = s.Newest(ctx); err == nil {
				s.news.set(cursor)
			}
		}
		if err != nil && ctx.Err() == nil && !ledger.IsDown(err) {
			s.log.WarnContext(ctx, "the stream's cursors are not given", "error", err)
		}
		if given > 0 && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.emitted:
		case <-time.After(2 * idlePoll):
		}
	}
	return ctx.Err()
}

// messagesLimit bounds one reading of the ledger for a stream.
const messagesLimit = 20 * time.Second

// Stream is like Messages, and waits for messages where there are none. When the context ends first, it returns none and no error.
func (s *Service) Stream(ctx context.Context, after int64, watch, address string, limit int) (list []Told, next int64, err error) {
	s.news.readers.Add(1)
	defer s.news.readers.Add(-1)
	for {
		changed := s.news.next() // before the ledger is read: what comes from then on closes it
		read, cancel := context.WithTimeout(context.WithoutCancel(ctx), messagesLimit)
		list, next, err = s.Messages(read, after, watch, address, "", limit)
		cancel()
		if err != nil || next > after {
			return list, next, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, after, nil
		}
	}
}

// Messages returns what was handed to the sinks, behind a cursor, in an order that never changes: who reads on from the last cursor
// misses nothing. An empty watch, address or argument (see Told.has) means all. The cursor that comes with it goes on where this page ends.
func (s *Service) Messages(ctx context.Context, after int64, watch, address, argument string, limit int) (list []Told, next int64, err error) {
	next = after
	rows, err := s.db.Events(ctx, topic, after, limit)
	if err != nil {
		return nil, after, err
	}
	if len(rows) > 0 {
		next = rows[len(rows)-1].Cursor
		rows = slices.DeleteFunc(rows, func(row ledger.Event) bool { return watch != "" && row.Kind != watch })
	}
	list, err = told(rows, address, argument)
	return list, next, err
}

// told reads messages, and keeps those that are about a contract and have a value.
func told(rows []ledger.Event, address, argument string) ([]Told, error) {
	list := []Told{}
	for _, row := range rows {
		one := Told{Cursor: row.Cursor}
		if err := json.Unmarshal([]byte(row.Body), &one.Event); err != nil {
			return nil, fmt.Errorf("a message of the outbox: %w", err)
		}
		if one.has(address, argument) {
			list = append(list, one)
		}
	}
	return list, nil
}

// has tells whether a message is about a contract and has a value among its arguments: "value", or "name=value" of the one of that name. Letters may be small or
// large. Empty texts mean any.
func (t *Told) has(address, argument string) bool {
	if address != "" && !strings.EqualFold(t.Address, address) {
		return false
	}
	if argument == "" {
		return true
	}
	args, err := decode.FromJSON(t.Args)
	if err != nil {
		return false
	}
	name, value, named := strings.Cut(argument, "=")
	if v, there := args[name]; named && there {
		return holds(v, value)
	}
	return holds(args, argument)
}

// holds looks for a value in what package decode makes of arguments.
func holds(v any, value string) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if holds(member, value) {
				return true
			}
		}
		return false
	case []any:
		return slices.ContainsFunc(v, func(entry any) bool { return holds(entry, value) })
	default:
		return strings.EqualFold(fmt.Sprint(v), value)
	}
}

// Latest returns the newest messages, newest first, and the cursor behind which newer ones will come. An empty watch or
// address means all; limit counts the messages that are looked at for an address or an argument.
func (s *Service) Latest(ctx context.Context, watch, address, argument string, limit int) (list []Told, cursor int64, err error) {
	rows, cursor, err := s.db.Latest(ctx, topic, watch, limit)
	if err != nil {
		return nil, 0, err
	}
	list, err = told(rows, address, argument)
	return list, cursor, err
}

// Newest is the cursor of the newest message.
func (s *Service) Newest(ctx context.Context) (int64, error) {
	return s.db.Newest(ctx)
}
