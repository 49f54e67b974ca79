package ethapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
	"lockstep/internal/relay/cache"
)

// redisFilters opens a store as another relay of the same fleet would.
func redisFilters(t *testing.T, url string, most, bytes int, ttl time.Duration) *cache.Filters {
	t.Helper()
	client := must.Get(redisx.Open(url, redisx.Options{Timeout: patience}))(t)
	t.Cleanup(func() { _ = client.Close() })
	return cache.NewFilters(client, cache.FilterBounds{Count: most, Bytes: bytes, TTL: ttl, Timeout: patience})
}

// someBytes is more than the filters of a test have, unless it says so.
const someBytes = 1 << 20

// Every store keeps the contract, here, in Redis and in a cluster: large numbers, polls at the same time, lifetimes. TestFilterStoresFollowTheModel
// has the rest.
func TestFilterStores(t *testing.T) {
	stores := map[string]func(t *testing.T) func(most int, ttl time.Duration) FilterStore{
		"local": func(*testing.T) func(int, time.Duration) FilterStore {
			return func(most int, ttl time.Duration) FilterStore { return newLocalFilters(most, someBytes, ttl) }
		},
		"redis": func(t *testing.T) func(int, time.Duration) FilterStore {
			server := redistest.Start(t)
			return func(most int, ttl time.Duration) FilterStore {
				server.Client().FlushAll(t.Context())
				return redisFilters(t, server.URL(), most, someBytes, ttl)
			}
		},
		"cluster": func(t *testing.T) func(int, time.Duration) FilterStore {
			cluster := redistest.StartCluster(t)
			return func(most int, ttl time.Duration) FilterStore {
				for _, node := range cluster.Nodes {
					node.Client().FlushAll(t.Context())
				}
				return redisFilters(t, cluster.URL(), most, someBytes, ttl)
			}
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { storeContract(t, open(t)) })
	}
}

func storeContract(t *testing.T, open func(most int, ttl time.Duration) FilterStore) {
	ctx := t.Context()
	state := func(s FilterStore, id string) string {
		text, next, ok, err := s.Use(ctx, id)
		return fmt.Sprintf("%s %d %v %v", text, next, ok, err)
	}
	same := func(ok bool, err error) func(want bool, what string) {
		return func(want bool, what string) {
			t.Helper()
			if ok != want || err != nil {
				t.Errorf("%s: %v %v", what, ok, err)
			}
		}
	}
	add := func(s FilterStore, id, text string, next uint64) {
		t.Helper()
		must.Do(t, s.Add(ctx, "192.0.2.1", id, []byte(text), next))
	}
	s := open(3, time.Hour)
	if got := state(s, "0x1"); got != " 0 false <nil>" {
		t.Errorf("nothing: %s", got)
	}
	const far = 1<<63 + 1
	add(s, "0x1", `{"a":"b"}`, far)
	if got := state(s, "0x1"); got != fmt.Sprintf(`{"a":"b"} %d true <nil>`, uint64(far)) {
		t.Errorf("kept: %s", got)
	}
	same(s.Advance(ctx, "0x1", far, far+7))(true, "advance")
	if got := state(s, "0x1"); got != fmt.Sprintf(`{"a":"b"} %d true <nil>`, uint64(far+7)) {
		t.Errorf("advanced: %s", got)
	}
	same(s.Delete(ctx, "0x1"))(true, "delete")

	left := 0
	for _, id := range []string{"0xa", "0xb", "0xc", "0xd"} {
		add(s, id, id, 1)
	}
	for _, id := range []string{"0xa", "0xb", "0xc", "0xd"} {
		if !strings.Contains(state(s, id), "false") {
			left++
		}
	}
	if left != 3 {
		t.Errorf("%d filters are kept, want 3", left)
	}

	// Of many polls at the same time one is the first.
	add(s, "0xe", "e", 5)
	var group sync.WaitGroup
	moved := make(chan bool, 16)
	for i := range uint64(16) {
		group.Go(func() {
			ok, err := s.Advance(ctx, "0xe", 5, 6+i)
			if err != nil {
				t.Error(err)
			}
			moved <- ok
		})
	}
	group.Wait()
	close(moved)
	wins := 0
	for ok := range moved {
		if ok {
			wins++
		}
	}
	if wins != 1 {
		t.Errorf("%d polls were the first", wins)
	}

	// What is not used is gone after a while.
	short := open(3, 50*time.Millisecond)
	add(short, "0xf", "f", 1)
	gone := false
	for end := time.Now().Add(patience); !gone && time.Now().Before(end); {
		<-time.After(100 * time.Millisecond) // using it would let it live on
		gone = strings.Contains(state(short, "0xf"), "false")
	}
	if !gone {
		t.Error("it lives beyond its time")
	}
}

func TestFilterLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := newLocalFilters(10, someBytes, time.Minute), t.Context()
		for _, id := range []string{"used", "idle"} {
			_ = s.Add(ctx, "", id, nil, 0)
		}
		<-time.After(40 * time.Second)
		if _, _, ok, _ := s.Use(ctx, "used"); !ok {
			t.Error("gone before its time")
		}
		<-time.After(40 * time.Second)
		if _, _, ok, _ := s.Use(ctx, "used"); !ok {
			t.Error("use does not let it live on")
		}
		if existed, _ := s.Delete(ctx, "idle"); existed {
			t.Error("lives beyond its time")
		}
		<-time.After(time.Minute)
		if _, _, ok, _ := s.Use(ctx, "used"); ok || len(s.byID) != 0 || s.order.Len() != 0 {
			t.Error("lives beyond its time")
		}
	})
}

func TestFilterIDs(t *testing.T) {
	for text, want := range map[string]string{"0x1": "0x1", "0x0001": "0x1", "0xAB": "0xab", "0x": "0x0", "0x00": "0x0"} {
		if got := filterID(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// A filter is the same after it was kept.
func TestKeptFilters(t *testing.T) {
	one, ref := uint64(1), func(n uint64) *eth.BlockRef { r := eth.NumberRef(n); return &r }
	for _, q := range []*logQuery{
		nil,
		{},
		{from: ref(0), to: ref(one)},
		{from: ref(7), addresses: []common.Address{{1}, {2}}, topics: topicQuery{[maxTopics][]common.Hash{{{1}, {2}}, nil, {{3}}}, 4}},
		{blockHash: &common.Hash{9}},
	} {
		text := must.Get(json.Marshal(stored(q)))(t)
		var k storedFilter
		must.Do(t, json.Unmarshal(text, &k))
		if got := k.query(); fmt.Sprintf("%+v", show(got)) != fmt.Sprintf("%+v", show(q)) {
			t.Errorf("%s: %+v, want %+v", text, show(got), show(q))
		}
	}
}

func show(q *logQuery) string {
	if q == nil {
		return "blocks"
	}
	ref := func(r *eth.BlockRef) string {
		if r == nil {
			return "-"
		}
		return r.String()
	}
	return fmt.Sprint(q.blockHash, ref(q.from), ref(q.to), len(q.addresses), q.addresses, q.topics)
}

// Two relays share their filters: what one makes the other polls, and however many polls
// there are at the same time, every event is told once.
func TestFleetSharesFilters(t *testing.T) {
	n := newNetwork(t, 0)
	server := redistest.Start(t)
	var fleet []*relay
	for range 2 {
		store := redisFilters(t, server.URL(), 100, someBytes, time.Hour)
		fleet = append(fleet, newRelay(t, n.node, func(s *settings) { s.deps.Filters = store }))
	}
	n.dynamic(0, nil, 0, 500_000, initCode(counter))
	contract := n.receipt(n.dynamic(1, nil, 0, 500_000, initCode(counter))).ContractAddress
	var logs, blocks string
	unmarshal(t, fleet[0].call("eth_newFilter", fmt.Sprintf(`[{"address":"%s"}]`, contract)), &logs)
	unmarshal(t, fleet[0].call("eth_newBlockFilter", `[]`), &blocks)

	const sends = 20
	var sent, told []string
	var numbers []common.Hash
	var mu sync.Mutex
	poll := func() {
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() {
				var got []types.Log
				var hashes []common.Hash
				if err := errors.Join(decode(fleet[i%2].call("eth_getFilterChanges", `["`+logs+`"]`), &got), decode(fleet[i%2].call("eth_getFilterChanges", `["`+blocks+`"]`), &hashes)); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, l := range got {
					told = append(told, l.TxHash.Hex())
				}
				numbers = append(numbers, hashes...)
			})
		}
		group.Wait()
	}
	for i := range uint64(sends) {
		sent = append(sent, n.dynamic(i+2, &contract, 0, 200_000, nil).Hash().Hex())
		if i%4 == 3 {
			poll()
		}
	}
	n.receipt(n.dynamic(sends+2, nil, 0, 500_000, initCode(counter)))
	poll()
	poll()
	if diff := cmp.Diff(sent, told); diff != "" {
		t.Errorf("events (-sent +told)\n%s", diff)
	}
	slices.SortFunc(numbers, common.Hash.Cmp)
	if distinct := slices.Compact(slices.Clone(numbers)); len(numbers) != sends+1 || len(distinct) != len(numbers) {
		t.Errorf("%d blocks told, %d of them different, want %d", len(numbers), len(distinct), sends+1)
	}
	var all []types.Log
	unmarshal(t, fleet[1].call("eth_getFilterLogs", `["`+logs+`"]`), &all)
	if len(all) != sends {
		t.Errorf("%d logs", len(all))
	}
	fleet[1].expect([3]string{"eth_uninstallFilter", `["` + logs + `"]`, "true"})
	fleet[0].expect(
		[3]string{"eth_getFilterChanges", `["` + logs + `"]`, "-32001 filter not found"},
		[3]string{"eth_uninstallFilter", `["` + logs + `"]`, "false"},
	)
	// Without Redis there is no answer, and no wrong one.
	server.Kill()
	const away = "-32000 Filters cannot be reached at the moment. Try again."
	fleet[0].expect(
		[3]string{"eth_newBlockFilter", `[]`, away}, [3]string{"eth_getFilterChanges", `["` + blocks + `"]`, away},
		[3]string{"eth_uninstallFilter", `["` + blocks + `"]`, away},
	)
}

func decode(r response, dst any) error {
	if r.Error != nil {
		return errors.New(r.String())
	}
	return json.Unmarshal(r.Result, dst)
}

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
		if more := number(a) - number(b); more != 0 {
			return more
		}
		return strings.Compare(m.clients[a], m.clients[b])
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
