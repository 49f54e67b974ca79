package ethapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"lockstep/internal/redistest"
)

// filterModel is what a FilterStore is, without any cleverness. Nothing expires in it.
type filterModel struct {
	most    int
	bytes   int
	order   []string // the longest unused first
	texts   map[string]string
	clients map[string]string
	cursors map[string]uint64
}

func (m *filterModel) add(client, id, text string, next uint64) {
	if len(m.order) == m.most {
		m.delete(m.oldest())
	}
	for m.sum()+len(text) > m.bytes {
		m.delete(slices.MaxFunc(m.order, func(a, b string) int { return len(m.texts[a]) - len(m.texts[b]) }))
	}
	m.order = append(m.order, id)
	m.clients[id], m.texts[id], m.cursors[id] = client, text, next
}

// oldest is the first of the client that has most; of two that have as many the one with the greater name.
func (m *filterModel) oldest() string {
	number := func(id string) (n int) {
		for _, other := range m.order {
			if m.clients[other] == m.clients[id] {
				n++
			}
		}
		return n
	}
	return slices.MaxFunc(m.order, func(a, b string) int {
		return cmp.Or(cmp.Compare(number(a), number(b)), strings.Compare(m.clients[a], m.clients[b]))
	})
}

func (m *filterModel) sum() (bytes int) {
	for _, id := range m.order {
		bytes += len(m.texts[id])
	}
	return bytes
}

func (m *filterModel) use(id string) string {
	if m.delete(id) {
		m.order = append(m.order, id)
		return fmt.Sprintf("%s at %d", m.texts[id], m.cursors[id])
	}
	return "none"
}

func (m *filterModel) advance(id string, from, to uint64) bool {
	if !slices.Contains(m.order, id) || m.cursors[id] != from {
		return false
	}
	m.cursors[id] = to
	return true
}

func (m *filterModel) delete(id string) bool {
	before := len(m.order)
	m.order = slices.DeleteFunc(m.order, func(other string) bool { return other == id })
	return len(m.order) < before
}

// nextMillisecond waits until Redis can tell two uses apart.
func nextMillisecond(t *rapid.T, client *redis.Client) {
	for began := (time.Time{}); ; {
		now, err := client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		now = now.Truncate(time.Millisecond)
		if began.IsZero() {
			began = now
		}
		if now.After(began) {
			return
		}
	}
}

// Whatever is done to them, the stores answer as the model does, and so they agree.
func TestFilterStoresFollowTheModel(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	const most, bytes, ids, cursors = 3, 7000, 6, 4
	inRedis := redisFilters(t, server.URL(), most, bytes, time.Hour)
	rapid.Check(t, func(t *rapid.T) {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		m := &filterModel{most: most, bytes: bytes, texts: map[string]string{}, clients: map[string]string{}, cursors: map[string]uint64{}}
		stores := []FilterStore{newLocalFilters(most, bytes, time.Hour), inRedis}
		added := 0
		someID := func(t *rapid.T) string { // perhaps one that is gone, or was never there
			return fmt.Sprintf("0x%x", max(0, added-rapid.IntRange(0, ids).Draw(t, "id")))
		}
		cursor := rapid.Uint64Range(0, cursors)
		same := func(t *rapid.T, s FilterStore, what string, want, got any, err error) {
			if err != nil || want != got {
				t.Fatalf("%T: %s: %v, %v; want %v", s, what, got, err, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				nextMillisecond(t, client)
				added++
				id, next := fmt.Sprintf("0x%x", added), cursor.Draw(t, "cursor")
				// No two are of the same length, so that it is clear which one is the longest.
				text := strings.Repeat("x", 1000*rapid.IntRange(0, 5).Draw(t, "length")+added)
				client := rapid.SampledFrom([]string{"", "192.0.2.1", "2001:db8::"}).Draw(t, "client")
				m.add(client, id, text, next)
				for _, s := range stores {
					same(t, s, "add", nil, nil, s.Add(t.Context(), client, id, []byte(text), next))
				}
			},
			"use": func(t *rapid.T) {
				nextMillisecond(t, client)
				id := someID(t)
				want := m.use(id)
				for _, s := range stores {
					text, next, ok, err := s.Use(t.Context(), id)
					got := "none"
					if ok {
						got = fmt.Sprintf("%s at %d", text, next)
					}
					same(t, s, "use "+id, want, got, err)
				}
			},
			"advance": func(t *rapid.T) {
				id, from, to := someID(t), cursor.Draw(t, "from"), cursor.Draw(t, "to")
				want := m.advance(id, from, to)
				for _, s := range stores {
					got, err := s.Advance(t.Context(), id, from, to)
					same(t, s, "advance "+id, want, got, err)
				}
			},
			"delete": func(t *rapid.T) {
				id := someID(t)
				want := m.delete(id)
				for _, s := range stores {
					got, err := s.Delete(t.Context(), id)
					same(t, s, "delete "+id, want, got, err)
				}
			},
		})
	})
}
