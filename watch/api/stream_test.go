package api_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

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
