package api_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/internal/access"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/watch"
)

// TestStreamTellsEveryReader has many readers wait for what comes. Each is told of everything, in one order; what others have in the
// outbox of the same database is not theirs.
func TestStreamTellsEveryReader(t *testing.T) {
	const readers, deployments = 20, 3
	w := newWorld(t)
	w.run(approved)
	var opened, done sync.WaitGroup
	got := make([][]string, readers)
	for i := range readers {
		opened.Add(1)
		done.Go(func() {
			ready := sync.OnceFunc(opened.Done)
			defer ready()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/events/stream?cursor=0", nil)
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = answer.Body.Close() }()
			lines := bufio.NewScanner(answer.Body)
			for len(got[i]) < deployments && lines.Scan() {
				ready() // the first line is a greeting
				if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					var e watch.Event
					if err := json.Unmarshal([]byte(data), &e); err != nil {
						t.Error(err)
					}
					got[i] = append(got[i], e.Event+" "+string(e.Args))
				}
			}
		})
	}
	opened.Wait()
	for n := range deployments {
		must.Do(t, w.db.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Emit(t.Context(), ledger.Event{Topic: "another", Subject: "s", Kind: "k", Body: "{}"})
		}))
		w.deploy(n + 1)
		w.chain.Commit()
	}
	done.Wait()
	for i := range got {
		if len(got[i]) != deployments || !slices.Equal(got[i], got[0]) {
			t.Errorf("reader %d got %v, the first one %v", i, got[i], got[0])
		}
	}
}

// TestStreamsOfOneKey: a key that opens streams without end is refused some day, and leaves room for others.
func TestStreamsOfOneKey(t *testing.T) {
	w := newWorld(t)
	var tokens []string
	for range 2 {
		_, token := must.Get2(w.keys.Create(t.Context(), "", access.RoleAdmin, ""))(t)
		tokens = append(tokens, token.Reveal())
	}
	w.run(approved)
	client := &http.Client{Transport: &http.Transport{}}
	open := func(token string) int {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/events/stream", nil))(t)
		request.Header.Set("Authorization", "Bearer "+token)
		answer := must.Get(client.Do(request))(t)
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer.StatusCode
	}
	n := 0
	for ; n < 1000; n++ {
		if status := open(tokens[0]); status != http.StatusOK {
			if status != http.StatusServiceUnavailable {
				t.Errorf("stream %d: status %d", n, status)
			}
			break
		}
	}
	if n == 0 || n == 1000 {
		t.Errorf("one key has %d streams", n)
	}
	if status := open(tokens[1]); status != http.StatusOK {
		t.Errorf("another key, beside %d streams of the first one: status %d", n, status)
	}
}
