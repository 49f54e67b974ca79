package mirrorrest_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet/ledger"
	"lockstep/devnet/mirrorrest"
)

// following is a network whose blocks can be waited for.
type following struct {
	*network
	closing chan struct{}
	lag     time.Duration
}

func newFollowing(t *testing.T) *following {
	f := &following{network: newNetwork(t, ledger.Config{}), closing: make(chan struct{})}
	f.handler = mirrorrest.New(mirrorrest.Config{
		View: func() *ledger.View {
			if f.lag == 0 {
				return f.ledger.View()
			}
			return f.ledger.ViewBehind(f.lag)
		},
		Changed: f.ledger.Subscribe, Closing: f.closing, Log: slog.New(slog.DiscardHandler),
	})
	return f
}

// ask returns the numbers of the blocks of an answer, and how long it took.
func (f *following) ask(query string) (numbers []int64, took time.Duration) {
	f.t.Helper()
	began := time.Now()
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, "/devnet/blocks"+query, nil))
	var answer struct{ Blocks []struct{ Number int64 } }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || answer.Blocks == nil {
		f.t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	for _, b := range answer.Blocks {
		numbers = append(numbers, b.Number)
	}
	return numbers, time.Since(began)
}

// newBlock makes a block.
func (f *following) newBlock() { f.call(0, &types.DynamicFeeTx{To: new(account(1).Address)}) }

func number(n int64) string { return strconv.FormatInt(n, 10) }

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowing(t)
		expect := func(query string, want []int64, wantTook time.Duration) {
			t.Helper()
			got, took := f.ask(query)
			if !slices.Equal(got, want) || took != wantTook {
				t.Errorf("%s: got %v after %v, want %v after %v", query, got, took, want, wantTook)
			}
		}
		head := f.ledger.View().LatestBlock().Number
		next := "?wait=10000&from=" + number(head+1)
		expect("?from="+number(head), []int64{head}, 0)
		expect("?from="+number(head+1), nil, 0)
		expect(next, nil, 10*time.Second)
		expect("?wait=999999999&from="+number(head+5), nil, 30*time.Second)

		soon := func(do func()) { time.AfterFunc(3*time.Second, do) }
		soon(f.newBlock)
		expect(next, []int64{head + 1}, 3*time.Second)
		f.newBlock()
		f.newBlock()
		expect(next, []int64{head + 1, head + 2, head + 3}, 0)

		// A mirror node that lags answers when it may show the block, not before.
		f.lag = time.Second
		<-time.After(2 * time.Second)
		soon(f.newBlock)
		got, took := f.ask("?wait=10000&from=" + number(head+4))
		if !slices.Equal(got, []int64{head + 4}) || took < 4*time.Second || took > 4*time.Second+20*time.Millisecond {
			t.Errorf("lagging: got %v after %v, want block %d after 4s", got, took, head+4)
		}

		// A server that stops keeps nobody waiting.
		soon(func() { close(f.closing) })
		expect("?wait=10000&from="+number(head+5), nil, 3*time.Second)
	})
}

func TestFollowWithoutNotice(t *testing.T) {
	n := newNetwork(t, ledger.Config{}) // nobody says when there are new blocks
	w := httptest.NewRecorder()
	n.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/devnet/blocks?wait=30000&from=1000", nil))
	if got := w.Body.String(); got != `{"blocks":[]}`+"\n" {
		t.Errorf("got %s", got)
	}
	for _, odd := range []string{"?from=-1", "?from=x", "?wait=1.5", "?after=1"} {
		w := httptest.NewRecorder()
		n.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/devnet/blocks"+odd, nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", odd, w.Code)
		}
	}
}
