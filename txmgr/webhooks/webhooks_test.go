package webhooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/envx"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/txmgr"
	"lockstep/txmgr/sqlstore"
)

func open(t *testing.T, url string) *ledger.DB {
	t.Helper()
	db := must.Get(ledger.Open(t.Context(), url))(t)
	t.Cleanup(func() { db.Close() })
	must.Do(t, db.Migrate(t.Context(), sqlstore.Schema))
	return db
}

func config() Config {
	return Config{
		Networks: envx.Strings{"127.0.0.1"}, Timeout: envx.Millis(5 * time.Minute), RetryFor: envx.Millis(24 * time.Hour), Workers: 8, Limit: 3,
		Retention: envx.Millis(time.Hour),
	}
}

func service(t *testing.T, db *ledger.DB) *Service {
	t.Helper()
	return must.Get(New(config(), db, Options{Topic: "txm", Kinds: txmgr.EventKinds(), Agent: "test"}, slog.New(slog.DiscardHandler)))(t)
}

// happen writes events of one tenant's intents into the stream.
func happen(t *testing.T, db *ledger.DB, tenant string, events ...string) {
	t.Helper()
	must.Do(t, db.Write(t.Context(), func(tx *ledger.Tx) error {
		for _, e := range events {
			subject, kind, _ := strings.Cut(e, " ")
			body := fmt.Sprintf(`{"id":%q,"tenant":%q,"note":"%s"}`, subject, tenant, strings.Repeat("x", 10))
			if err := tx.Emit(t.Context(), ledger.Event{Topic: "txm", Subject: subject, Kind: kind, Body: body, At: time.Now().UnixMicro()}); err != nil {
				return err
			}
		}
		return nil
	}))
	must.Get(db.Sequence(t.Context()))(t)
}

// receiver takes deliveries and refuses those that refuse says.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	refuse func(envelope) int
	got    []envelope
	ids    []string
	check  func(body []byte, header http.Header)
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		var e envelope
		if err := json.Unmarshal(body, &e); err != nil {
			t.Errorf("body %s: %v", body, err)
		}
		r.mu.Lock()
		if r.check != nil {
			r.check(body, request.Header)
		}
		status := http.StatusOK
		if r.refuse != nil {
			status = r.refuse(e)
		}
		if status == http.StatusOK {
			r.got = append(r.got, e)
			r.ids = append(r.ids, request.Header.Get("webhook-id"))
		}
		r.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

// until waits for a condition on what came.
func (r *receiver) until(t *testing.T, what string, condition func([]envelope) bool) {
	t.Helper()
	must.Until(t, what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return condition(r.got)
	})
}

// sequences are those of a subject, in the order of their arrival.
func sequences(list []envelope, subject string) []int64 {
	var out []int64
	for _, e := range list {
		if e.Subject == subject {
			out = append(out, e.Sequence)
		}
	}
	return out
}

// databases are the ledgers that a test runs on.
func databases(t *testing.T, test func(*testing.T, string)) {
	t.Run("memory", func(t *testing.T) { test(t, "memory:") })
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, pgtest.Start(t).Database()) })
}

// Two processes on one ledger: every event of the tenant and kind goes out once, those of a
// subject in order, signed.
func TestDeliveriesAreOrderedBySubject(t *testing.T) {
	databases(t, func(t *testing.T, url string) {
		db := open(t, url)
		first, second := service(t, db), service(t, db)
		r := newReceiver(t)
		happen(t, db, "acme", "old tx.accepted") // before the webhook: not its business
		hook := must.Get(first.Create(t.Context(), "acme", r.URL, []string{"tx.mined", "tx.c*"}))(t)
		key := hook.Secret
		verifier := must.Get(standard.NewWebhook(key.Reveal()))(t)
		r.check = func(body []byte, header http.Header) {
			if err := verifier.Verify(body, header); err != nil {
				t.Errorf("signature: %v", err)
			}
		}
		var events []string
		for i := range 20 {
			for _, subject := range []string{"a", "b", "c"} {
				events = append(events, subject+" "+[]string{"tx.mined", "tx.confirmed"}[i%2], subject+" tx.accepted")
			}
		}
		must.Run(t, first.Run)
		must.Run(t, second.Run)
		happen(t, db, "acme", events...)
		happen(t, db, "other", "d tx.mined")
		first.Wake()
		r.until(t, "60 deliveries", func(got []envelope) bool { return len(got) >= 60 })
		r.mu.Lock()
		defer r.mu.Unlock()
		var want []int64
		for i := range int64(20) {
			want = append(want, i+1)
		}
		for _, subject := range []string{"a", "b", "c"} {
			if got := sequences(r.got, subject); !slices.Equal(got, want) {
				t.Errorf("subject %s: %v", subject, got)
			}
		}
		slices.Sort(r.ids)
		if len(slices.Compact(slices.Clone(r.ids))) != 60 || len(r.got) != 60 {
			t.Errorf("%d deliveries, ids %v", len(r.got), r.ids)
		}
		if len(sequences(r.got, "d"))+len(sequences(r.got, "old")) != 0 {
			t.Error("another tenant's event, or one from before the webhook, was delivered")
		}
		list, err := first.Deliveries(t.Context(), "acme", hook.ID, "", "", 500)
		if err != nil || len(list) != 60 {
			t.Fatalf("%d deliveries are listed, %v", len(list), err)
		}
		if _, err := first.Deliveries(t.Context(), "other", hook.ID, "", "", 500); !errors.Is(err, ErrNotFound) {
			t.Errorf("another tenant sees them: %v", err)
		}
	})
}

// A subject that fails holds nobody else back, and its successors wait; when it is given up
// they go, and a redelivery keeps id and number.
func TestAFailingSubjectWaitsAlone(t *testing.T) {
	databases(t, func(t *testing.T, url string) {
		db := open(t, url)
		s := service(t, db)
		r := newReceiver(t)
		bad := true
		r.refuse = func(e envelope) int {
			if bad && e.Subject == "bad" && e.Sequence == 1 {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		}
		hook := must.Get(s.Create(t.Context(), "", r.URL, nil))(t)
		must.Run(t, s.Run)
		happen(t, db, "", "bad tx.a", "bad tx.b", "good tx.a", "good tx.b")
		s.Wake()
		r.until(t, "the good subject goes on", func(got []envelope) bool { return slices.Equal(sequences(got, "good"), []int64{1, 2}) })
		r.mu.Lock()
		early := sequences(r.got, "bad")
		r.mu.Unlock()
		if early != nil {
			t.Fatalf("the bad subject delivered %v", early)
		}
		failed := waitFor(t, s, hook.ID, func(d *Delivery) bool { return d.Subject == "bad" && d.Attempts == 1 && d.Answer == 500 })
		if failed.Status != StatusPending || failed.Next <= failed.Created {
			t.Errorf("after a failure: %+v", failed)
		}
		// A day passes: the time to give up and the next time are moved instead of the clock.
		exec(t, db, "UPDATE deliveries SET next_at = 0, give_up = 1 WHERE id = $1", failed.ID)
		s.Wake()
		r.until(t, "the successor is let go", func(got []envelope) bool { return slices.Equal(sequences(got, "bad"), []int64{2}) })
		dead := waitFor(t, s, hook.ID, func(d *Delivery) bool { return d.Status == StatusDead })
		r.mu.Lock()
		bad = false
		r.mu.Unlock()
		must.Get(s.Redeliver(t.Context(), "", hook.ID, dead.ID))(t)
		r.until(t, "the redelivery", func(got []envelope) bool { return slices.Equal(sequences(got, "bad"), []int64{2, 1}) })
		r.mu.Lock()
		defer r.mu.Unlock()
		if last := r.got[len(r.got)-1]; last.ID != dead.ID {
			t.Errorf("redelivered as %s, was %s", last.ID, dead.ID)
		}
	})
}

func exec(t *testing.T, db *ledger.DB, query ledger.SQL, args ...any) {
	t.Helper()
	must.Do(t, db.Write(t.Context(), func(tx *ledger.Tx) error {
		n, err := tx.Exec(t.Context(), query, args...)
		if err == nil && n == 0 {
			return errors.New("nothing was changed")
		}
		return err
	}))
}

// waitFor waits for a delivery of a webhook that fits.
func waitFor(t *testing.T, s *Service, hook string, fits func(*Delivery) bool) (d *Delivery) {
	t.Helper()
	must.Until(t, "a delivery fits", func() bool {
		list := must.Get(s.Deliveries(t.Context(), "", hook, "", "", 500))(t)
		n := slices.IndexFunc(list, fits)
		if n >= 0 {
			d = list[n]
		}
		return n >= 0
	})
	return d
}

// A webhook that cannot be read ends a round, not the process, and nothing goes out of a claim that was not committed.
func TestTheLedgerFails(t *testing.T) {
	db := open(t, "memory:")
	s := service(t, db)
	r := newReceiver(t)
	for range 2 {
		hook := must.Get(s.Create(t.Context(), "", r.URL, nil))(t)
		happen(t, db, "", "a tx.a")
		must.Get(s.expand(t.Context(), hook.ID))(t)
	}
	exec(t, db, "UPDATE webhooks SET old_until = 'never' WHERE created_at = (SELECT max(created_at) FROM webhooks)") // no number
	if _, _, err := s.claim(t.Context()); err == nil {
		t.Fatal("the webhook can be read")
	}
	workers := new(errgroup.Group)
	if s.round(t.Context(), workers) {
		t.Error("a round that failed is repeated at once")
	}
	_ = workers.Wait() // they return nil
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) != 0 {
		t.Errorf("%d deliveries were sent", len(r.got))
	}
}

// A process that dies with a claim leaves the delivery to the others when the claim ends.
func TestAClaimEndsByItself(t *testing.T) {
	db := open(t, "memory:")
	s := service(t, db)
	r := newReceiver(t)
	hook := must.Get(s.Create(t.Context(), "", r.URL, nil))(t)
	happen(t, db, "", "a tx.a")
	must.Get(s.expand(t.Context(), hook.ID))(t)
	taken, _, err := s.claim(t.Context())
	if err != nil || len(taken) != 1 {
		t.Fatalf("claimed %d, %v", len(taken), err)
	}
	if again, _, err := s.claim(t.Context()); err != nil || len(again) != 0 {
		t.Fatalf("claimed twice: %d, %v", len(again), err)
	}
	exec(t, db, "UPDATE deliveries SET next_at = 0")
	later, _, err := s.claim(t.Context())
	if err != nil || len(later) != 1 {
		t.Fatalf("not claimed after the claim's end: %v", err)
	}
	// The first claim's answer comes late and changes nothing.
	must.Do(t, s.settle(t.Context(), taken[0].Delivery, StatusDead, 0, "late", 0))
	if d := waitFor(t, s, hook.ID, func(*Delivery) bool { return true }); d.Status != StatusPending {
		t.Errorf("the late answer made it %s", d.Status)
	}
}

func TestRotation(t *testing.T) {
	db := open(t, "memory:")
	s := service(t, db)
	hook := must.Get(s.Create(t.Context(), "acme", "https://hooks.example/x", nil))(t)
	rotated, err := s.Rotate(t.Context(), "acme", hook.ID, time.Hour)
	if err != nil || rotated.Secret == hook.Secret {
		t.Fatal(err)
	}
	now := int64(rotated.OldUntil) - 1
	if got := rotated.secrets(now); len(got) != 2 || got[0] != rotated.Secret || got[1] != hook.Secret {
		t.Errorf("%d secrets sign during the rotation", len(got))
	}
	if got := rotated.secrets(now + 2); len(got) != 1 || got[0] != rotated.Secret {
		t.Errorf("%d secrets sign after the rotation", len(got))
	}
	if text := fmt.Sprintf("%+v %#v", rotated, rotated); strings.Contains(text, rotated.Secret.Reveal()) || strings.Contains(text, hook.Secret.Reveal()) {
		t.Error("printing a webhook shows its secret")
	}
}

func TestWhatCannotBeAWebhook(t *testing.T) {
	db := open(t, "memory:")
	cfg := config()
	cfg.Networks = nil
	s := must.Get(New(cfg, db, Options{Topic: "txm", Kinds: txmgr.EventKinds()}, slog.New(slog.DiscardHandler)))(t)
	for url, events := range map[string][]string{
		"http://127.0.0.1/": nil, "http://169.254.169.254/latest": nil, "http://[::1]:80/": nil, "ftp://hooks.example": nil, "": nil,
		"https://hooks.example": {"tx.mined, tx.failed"}, "https://hooks.example/" + strings.Repeat("x", 3000): nil,
	} {
		if _, err := s.Create(t.Context(), "", url, events); !errors.Is(err, ErrURL) && !errors.Is(err, ErrEvents) {
			t.Errorf("%q %v: %v", url, events, err)
		}
	}
	for range cfg.Limit {
		if _, err := s.Create(t.Context(), "acme", "https://hooks.example", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Create(t.Context(), "acme", "https://hooks.example", nil); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more than the limit: %v", err)
	}
	private := "http://10.0.0.1/"
	list, err := s.List(t.Context(), "acme")
	if err != nil || len(list) != cfg.Limit {
		t.Fatalf("%d webhooks, %v", len(list), err)
	}
	if _, err := s.Update(t.Context(), "acme", list[0].ID, Change{URL: &private}); !errors.Is(err, ErrURL) {
		t.Errorf("changed to a private address: %v", err)
	}
	if _, err := s.Update(t.Context(), "other", list[0].ID, Change{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("another tenant changes it: %v", err)
	}
	if err := s.Delete(t.Context(), "acme", list[0].ID); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), "acme", list[0].ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("after the deletion: %v", err)
	}
}

func TestPruneKeepsWhatIsPending(t *testing.T) {
	db := open(t, "memory:")
	s := service(t, db)
	hook := must.Get(s.Create(t.Context(), "", "http://127.0.0.1:1/", nil))(t)
	happen(t, db, "", "a tx.a", "b tx.a")
	must.Get(s.expand(t.Context(), hook.ID))(t)
	exec(t, db, "UPDATE deliveries SET status = 'delivered', done_at = 1 WHERE subject = 'a'")
	exec(t, db, "UPDATE webhook_sequences SET at = 1")
	must.Do(t, s.prune(t.Context()))
	list, err := s.Deliveries(t.Context(), "", hook.ID, "", "", 10)
	if err != nil || len(list) != 1 || list[0].Subject != "b" {
		t.Errorf("left: %v, %v", list, err)
	}
	happen(t, db, "", "b tx.b")
	must.Get(s.expand(t.Context(), hook.ID))(t)
	if d := waitFor(t, s, hook.ID, func(d *Delivery) bool { return d.Kind == "tx.b" }); d.Sequence != 2 {
		t.Errorf("the next of a subject with a pending delivery has sequence %d", d.Sequence)
	}
}

func TestPauses(t *testing.T) {
	last := time.Duration(0)
	for attempt := 1; attempt <= len(backoff); attempt++ {
		pause := nextPause(attempt, errors.New("x"))
		if base := backoff[attempt-1]; pause < base || pause > base+base/5 || pause < last {
			t.Errorf("attempt %d: %s", attempt, pause)
		}
		last = backoff[attempt-1]
	}
	if nextPause(100, nil) < backoff[len(backoff)-1] {
		t.Error("the pause shrinks")
	}
}

// A tenant with more due deliveries than there are workers leaves places for another one's, which came later.
func TestWorkersAreShared(t *testing.T) {
	db := open(t, "memory:")
	s := service(t, db) // with 8 workers
	for _, tenant := range []string{"acme", "other"} {
		hook := must.Get(s.Create(t.Context(), tenant, "http://127.0.0.1:1/", nil))(t)
		var events []string
		for n := range 20 {
			events = append(events, fmt.Sprintf("%s%d tx.a", tenant, n))
		}
		happen(t, db, tenant, events...)
		must.Get(s.expand(t.Context(), hook.ID))(t)
	}
	counts := map[string]int{}
	list, _ := must.Get2(s.claim(t.Context()))(t)
	for _, d := range list {
		counts[d.hook.Tenant]++
	}
	if counts["acme"] < 2 || counts["other"] < 2 || counts["acme"]+counts["other"] > 8 {
		t.Errorf("of 8 workers %v", counts)
	}
	for _, d := range list {
		d.giveBack()
	}
	if again, _, err := s.claim(t.Context()); err != nil || len(again) == 0 {
		t.Errorf("the places that were given back: %d, %v", len(again), err)
	}
}

// Every result has a series before the first delivery, so that the first one that is given up is a growth.
func TestMetricsStartAtZero(t *testing.T) {
	found := must.Measure(t, newMetrics().deliveries)
	for _, result := range []string{"delivered", "failed", "refused", "dead"} {
		if value, ok := found["txm_webhook_deliveries_total "+result]; !ok || value != 0 {
			t.Errorf("%s: %v (%v)", result, value, ok)
		}
	}
}
