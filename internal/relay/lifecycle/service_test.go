package lifecycle_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/relay/lifecycle"
)

func settings() lifecycle.Config {
	return lifecycle.Config{Enabled: true, MaxEntries: 100, MaxBytes: 1 << 20, RedisMaxBytes: 1 << 30, TTL: envx.Millis(time.Minute), RedisTimeout: envx.Millis(must.Patience)}
}

func start(t *testing.T, cfg lifecycle.Config, client redis.UniversalClient) *lifecycle.Service {
	t.Helper()
	s := must.Get(lifecycle.New(cfg, client))(t)
	must.Run(t, s.Run)
	return s
}

var (
	node   = hedera.Entity(3)
	first  = transaction(1)
	second = transaction(2)
	start0 = time.UnixMilli(1_700_000_000_000)
)

func transaction(n int32) hedera.TransactionID {
	return hedera.TransactionID{Payer: hedera.Entity(2), ValidStart: hedera.Timestamp{Seconds: 1_700_000_000, Nanos: n}}
}

func step(name string) lifecycle.Step { return lifecycle.Step{Name: name} }

func at(name string, id hedera.TransactionID) lifecycle.Step {
	return lifecycle.Step{Name: name, Node: node, Transaction: id}
}

func verdict(name, status string, id hedera.TransactionID) lifecycle.Step {
	return lifecycle.Step{Name: name, Status: status, Transaction: id}
}

func refused(err string) lifecycle.Step { return lifecycle.Step{Name: lifecycle.Rejected, Error: err} }

// histories are what can happen to one hash, and what is said of it in the end. The same
// holds for a service by itself and over Redis, where another process is asked, and
// where two processes report in turn.
var histories = map[string]struct {
	steps []lifecycle.Step
	want  lifecycle.Record // without times and steps
}{
	"executed": {
		[]lifecycle.Step{step(lifecycle.Received), step(lifecycle.Queued), at(lifecycle.Submitted, first), at(lifecycle.Accepted, first), verdict(lifecycle.Consensus, "SUCCESS", first)},
		lifecycle.Record{Status: "sent", TransactionID: first.String(), HederaStatus: "SUCCESS"},
	},
	"validated": {
		[]lifecycle.Step{step(lifecycle.Received), at(lifecycle.Accepted, first), verdict(lifecycle.Consensus, "SUCCESS", first), step(lifecycle.Mirrored)},
		lifecycle.Record{Status: "validated", TransactionID: first.String(), HederaStatus: "SUCCESS"},
	},
	"waits": {
		[]lifecycle.Step{step(lifecycle.Received), step(lifecycle.Queued)},
		lifecycle.Record{Status: "pending"},
	},
	"reverted": {
		[]lifecycle.Step{step(lifecycle.Received), at(lifecycle.Accepted, first), verdict(lifecycle.Consensus, "CONTRACT_REVERT_EXECUTED", first)},
		lifecycle.Record{Status: "sent", TransactionID: first.String(), HederaStatus: "CONTRACT_REVERT_EXECUTED"},
	},
	"rejected by the network": {
		[]lifecycle.Step{step(lifecycle.Received), at(lifecycle.Submitted, first), at(lifecycle.Accepted, first), verdict(lifecycle.Rejected, "WRONG_NONCE", first)},
		lifecycle.Record{Status: "rejected", TransactionID: first.String(), HederaStatus: "WRONG_NONCE"},
	},
	"never sent": {
		[]lifecycle.Step{step(lifecycle.Received), refused("Insufficient funds for transfer")},
		lifecycle.Record{Status: "rejected", Error: "Insufficient funds for transfer"},
	},
	"its nonce was spent": {
		[]lifecycle.Step{step(lifecycle.Received), {Name: lifecycle.Rejected, Error: "Nonce too low", Spent: true}},
		lifecycle.Record{Status: "rejected", Error: "Nonce too low", NonceSpent: true},
	},
	"unknown": {
		[]lifecycle.Step{step(lifecycle.Received), at(lifecycle.Submitted, first), at(lifecycle.Unknown, first)},
		lifecycle.Record{Status: "timedout", TransactionID: first.String()},
	},
	"unknown, then executed": {
		[]lifecycle.Step{step(lifecycle.Received), at(lifecycle.Unknown, first), verdict(lifecycle.Consensus, "SUCCESS", first)},
		lifecycle.Record{Status: "sent", TransactionID: first.String(), HederaStatus: "SUCCESS"},
	},
	"unknown, then certainly not": {
		[]lifecycle.Step{step(lifecycle.Received), at(lifecycle.Unknown, first), verdict(lifecycle.Rejected, "RECEIPT_NOT_FOUND", first)},
		lifecycle.Record{Status: "rejected", TransactionID: first.String(), HederaStatus: "RECEIPT_NOT_FOUND"},
	},
	"rejected, and sent again": {
		[]lifecycle.Step{step(lifecycle.Received), verdict(lifecycle.Rejected, "WRONG_NONCE", first), step(lifecycle.Received)},
		lifecycle.Record{Status: "pending"},
	},
	"a second attempt is refused while the first is on its way": {
		[]lifecycle.Step{step(lifecycle.Received), at(lifecycle.Accepted, first), step(lifecycle.Received), verdict(lifecycle.Rejected, "DUPLICATE_TRANSACTION", second)},
		lifecycle.Record{Status: "sent", TransactionID: first.String()},
	},
	"a second attempt is refused after the first was executed": {
		[]lifecycle.Step{at(lifecycle.Accepted, first), verdict(lifecycle.Consensus, "SUCCESS", first), step(lifecycle.Received), verdict(lifecycle.Rejected, "WRONG_NONCE", second)},
		lifecycle.Record{Status: "sent", TransactionID: first.String(), HederaStatus: "SUCCESS"},
	},
	"a second attempt is never sent while the first is unknown": {
		[]lifecycle.Step{at(lifecycle.Unknown, first), step(lifecycle.Received), refused("no node")},
		lifecycle.Record{Status: "timedout", TransactionID: first.String()},
	},
	"the first is executed after the second was refused": {
		[]lifecycle.Step{step(lifecycle.Received), verdict(lifecycle.Rejected, "WRONG_NONCE", second), verdict(lifecycle.Consensus, "SUCCESS", first)},
		lifecycle.Record{Status: "sent", TransactionID: first.String(), HederaStatus: "SUCCESS"},
	},
	"nothing is undone by the mirror node's sight": {
		[]lifecycle.Step{verdict(lifecycle.Consensus, "SUCCESS", first), step(lifecycle.Mirrored), verdict(lifecycle.Rejected, "WRONG_NONCE", second), at(lifecycle.Unknown, second), at(lifecycle.Accepted, second)},
		lifecycle.Record{Status: "validated", TransactionID: first.String(), HederaStatus: "SUCCESS"},
	},
}

var withoutTimes = cmpopts.IgnoreFields(lifecycle.Record{}, "Timestamp", "Steps")

func TestHistories(t *testing.T) {
	server := redistest.Start(t)
	local := start(t, settings(), nil)
	told, asked := start(t, settings(), redistest.Dial(t, server.URL())), start(t, settings(), redistest.Dial(t, server.URL()))
	for name, history := range histories {
		check := func(kind string, tell, ask *lifecycle.Service) {
			hash := common.BytesToHash([]byte(name + kind))
			t.Run(name+"/"+kind, func(t *testing.T) {
				for i, s := range history.steps {
					s.At = start0.Add(time.Duration(i) * time.Second)
					tell.Record(hash, s)
				}
				must.Until(t, "the record is as it should be", func() bool { got, _ := ask.Get(t.Context(), hash); return cmp.Equal(history.want, got, withoutTimes) })
			})
		}
		check("local", local, local)
		check("fleet", told, asked)
		// Each step by another process: each knows only what it saw itself.
		hash := common.BytesToHash([]byte(name + "turns"))
		t.Run(name+"/turns", func(t *testing.T) {
			for i, s := range history.steps {
				s.At = start0.Add(time.Duration(i) * time.Second)
				relay := must.Get(lifecycle.New(settings(), redistest.Dial(t, server.URL())))(t)
				relay.Record(hash, s)
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				if err := relay.Run(ended); err != nil { // writes what there is
					t.Fatal(err)
				}
			}
			want := history.want
			if got, _ := asked.Get(t.Context(), hash); got.Status != want.Status {
				t.Errorf("status %s, want %s", got.Status, want.Status)
			}
		})
	}
}

// The record lists the steps, with what each of them says.
func TestSteps(t *testing.T) {
	s := start(t, settings(), nil)
	hash := common.Hash{1}
	s.Record(hash, lifecycle.Step{Name: lifecycle.Received, At: start0})
	s.Record(hash, lifecycle.Step{Name: lifecycle.Submitted, At: start0.Add(time.Second), Node: node, Attempt: 1, Transaction: first})
	s.Record(hash, lifecycle.Step{Name: lifecycle.Consensus, At: start0.Add(2 * time.Second), Transaction: first, Status: "SUCCESS"})
	s.Validated(hash)
	got, ok := s.Get(t.Context(), hash)
	if !ok {
		t.Fatal("no record")
	}
	last := got.Steps[len(got.Steps)-1]
	want := []lifecycle.Event{
		{Step: "received", Timestamp: 1_700_000_000_000},
		{Step: "submitted", Timestamp: 1_700_000_001_000, Node: "0.0.3", Attempt: 1, TransactionID: first.String()},
		{Step: "consensus", Timestamp: 1_700_000_002_000, TransactionID: first.String(), HederaStatus: "SUCCESS"},
		{Step: "mirror", Timestamp: last.Timestamp},
	}
	if diff := cmp.Diff(want, got.Steps); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for range 1000 {
		s.Record(hash, step(lifecycle.Mirrored))
	}
	if got, _ := s.Get(t.Context(), hash); len(got.Steps) > 100 {
		t.Errorf("%d steps are listed", len(got.Steps))
	}
}

// Records are bounded in number, and age.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := settings()
		cfg.MaxEntries = 3
		s := must.Get(lifecycle.New(cfg, nil))(t)
		for i := range byte(5) {
			s.Record(common.Hash{i}, step(lifecycle.Received))
		}
		known := func() (known []byte) {
			for i := range byte(5) {
				if _, ok := s.Get(t.Context(), common.Hash{i}); ok {
					known = append(known, i)
				}
			}
			return known
		}
		if got := known(); !slices.Equal(got, []byte{2, 3, 4}) {
			t.Errorf("known: %v", got)
		}
		time.Sleep(59 * time.Second) //nolint:forbidigo // fake time
		s.Record(common.Hash{4}, step(lifecycle.Queued))
		time.Sleep(2 * time.Second) //nolint:forbidigo // fake time
		if got := known(); !slices.Equal(got, []byte{4}) {
			t.Errorf("known after the time: %v", got)
		}
	})
}

// Records are bounded in bytes, however long the texts in them are.
func TestBytes(t *testing.T) {
	cfg := settings()
	cfg.MaxBytes = 20_000
	s := must.Get(lifecycle.New(cfg, nil))(t)
	for i := range byte(50) {
		for range 2 {
			s.Record(common.Hash{i}, lifecycle.Step{Name: lifecycle.Submitted, Error: strings.Repeat("x", 1000)})
		}
	}
	known := 0
	for i := range byte(50) {
		if _, ok := s.Get(t.Context(), common.Hash{i}); ok {
			known++
		}
	}
	if _, newest := s.Get(t.Context(), common.Hash{49}); known < 3 || known > 8 || !newest {
		t.Errorf("%d records of 3,000 bytes are kept in 20,000; the newest: %v", known, newest)
	}
}

// In Redis records are bounded in bytes, by the fleet's quota and by the memory that Redis
// has left; each relay knows its own all the same.
func TestRedisBytes(t *testing.T) {
	count := func(client *redis.Client) int { return len(client.Keys(t.Context(), "txtrace:hash:*").Val()) }
	for name, bound := range map[string]func(*lifecycle.Config, *redis.Client) error{
		"quota": func(c *lifecycle.Config, _ *redis.Client) error {
			c.RedisMaxBytes = 40_000
			c.TTL = envx.Millis(50 * 365 * 24 * time.Hour) // a window of the quota does not end while this runs
			return nil
		},
		"memory": func(_ *lifecycle.Config, client *redis.Client) error {
			return client.ConfigSet(t.Context(), "maxmemory", "1").Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, cfg := redistest.Start(t), settings()
			must.Do(t, bound(&cfg, server.Client()))
			s := start(t, cfg, redistest.Dial(t, server.URL()))
			for i := range byte(90) {
				s.Record(common.Hash{i}, lifecycle.Step{Name: lifecycle.Submitted, Error: strings.Repeat("x", 1000)})
			}
			must.Until(t, "those that did not fit are counted", func() bool {
				return must.Measure(t, s.Collectors()...).Of("lockstep_tx_tracing_redis_errors_total") > 0
			})
			if got := count(server.Client()); got > 20 {
				t.Errorf("%d records are in Redis", got)
			}
			if _, ok := s.Get(t.Context(), common.Hash{0}); !ok {
				t.Error("the relay does not know its own")
			}
		})
	}
}

// In Redis a record expires, or, if the operator wants that, does not; and one that an
// established relay wrote is read and upgraded.
func TestInRedis(t *testing.T) {
	server := redistest.Start(t)
	look := server.Client()
	for name, test := range map[string]struct {
		ttl  time.Duration
		want func(time.Duration) bool
	}{
		"expires": {time.Minute, func(d time.Duration) bool { return d > 0 && d <= time.Minute }},
		"never":   {-1, func(d time.Duration) bool { return d == -1 }},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := settings()
			cfg.TTL = envx.Millis(test.ttl)
			s := start(t, cfg, redistest.Dial(t, server.URL()))
			hash := common.BytesToHash([]byte(name))
			s.Record(hash, step(lifecycle.Received))
			must.Until(t, "it expires in time", func() bool { return test.want(look.TTL(t.Context(), "txtrace:hash:"+hash.Hex()).Val()) })
		})
	}
	s := start(t, settings(), redistest.Dial(t, server.URL()))
	hash := common.Hash{7}
	look.Set(t.Context(), "txtrace:hash:"+hash.Hex(), fmt.Sprintf(`{"status":"sent","timestamp":5,"transactionId":%q}`, first), 0)
	if got, ok := s.Get(t.Context(), hash); !ok || got.Status != "sent" || got.TransactionID != first.String() {
		t.Errorf("read %+v", got)
	}
	s.Record(hash, verdict(lifecycle.Rejected, "WRONG_NONCE", second)) // of another attempt
	s.Validated(common.Hash{8})                                        // of which there is no record
	other := start(t, settings(), redistest.Dial(t, server.URL()))
	other.Validated(hash)
	must.Until(t, "it is upgraded", func() bool { got, _ := other.Get(t.Context(), hash); return got.Status == "validated" })
	if _, ok := s.Get(t.Context(), common.Hash{8}); ok {
		t.Error("a record came from nothing")
	}
}

// TestDisabled: a service that is off takes everything and keeps nothing.
func TestDisabled(t *testing.T) {
	s := lifecycle.Disabled()
	hash := common.Hash{1}
	s.Record(hash, step(lifecycle.Received))
	s.Validated(hash)
	if _, found := s.Get(t.Context(), hash); found || s.Enabled() || len(s.Collectors()) > 0 {
		t.Errorf("found %v, enabled %v, %d collectors", found, s.Enabled(), len(s.Collectors()))
	}
	if err := s.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

// A journal tells the steps in their order, some at a time, and forgets the oldest; a service that keeps no records has one, too.
func TestJournal(t *testing.T) {
	var j lifecycle.Journal
	s, sender := lifecycle.Disabled(), common.Address{7}
	s.Follow(&j)
	if list, next := j.From(0, 10); len(list) != 0 || next != 0 {
		t.Errorf("of nothing: %v, %d", list, next)
	}
	tell := func(nonce uint64) {
		s.Record(common.Hash{1}, lifecycle.Step{Name: lifecycle.Received, Sender: sender, Nonce: nonce})
	}
	for nonce := range uint64(3) {
		tell(nonce)
	}
	list, next := j.From(1, 1)
	if len(list) != 1 || list[0].Nonce != 1 || list[0].Sender != sender || list[0].Step != lifecycle.Received || list[0].At == 0 || next != 2 {
		t.Errorf("the second step: %+v, %d", list, next)
	}
	if list, next := j.From(99, 10); len(list) != 3 || next != 3 {
		t.Errorf("for whoever comes from an earlier process: %v, %d", list, next)
	}
	const kept = 8192
	for nonce := uint64(3); nonce < kept+5; nonce++ {
		tell(nonce)
	}
	if list, next := j.From(0, 2); len(list) != 2 || list[0].Nonce != 5 || next != 7 {
		t.Errorf("the oldest that are kept: %+v, %d", list, next)
	}
	if list, next := j.From(kept, 100); len(list) != 5 || next != kept+5 {
		t.Errorf("the newest: %d, %d", len(list), next)
	}
}
