package bench

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

func TestConsensusLogPaging(t *testing.T) {
	entry := func(seq, hash int) string {
		return fmt.Sprintf(`{"hash":"0x%064x","nonce":1,"status":"SUCCESS","sequence":%d}`, hash, seq)
	}
	list := func(entries ...string) string { return `{"entries":[` + strings.Join(entries, ",") + `]}` }
	tests := map[string]struct {
		pages map[string]string // by since; others are empty
		want  []int
		fails bool
		gap   bool
	}{
		"numbered":    {map[string]string{"0": list(entry(0, 1), entry(1, 2)), "2": list(entry(2, 3))}, []int{1, 2, 3}, false, false},
		"dropped":     {map[string]string{"0": list(entry(5, 1))}, []int{1}, false, true},
		"not a list":  {map[string]string{"0": `[]`}, nil, true, false},
		"broken":      {map[string]string{"0": `{"entries":[{"hash":"0x12"}]}`}, nil, true, false},
		"not found":   {map[string]string{"0": "404"}, nil, true, false},
		"nothing yet": {nil, nil, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			url, _ := countedServer(t, func(w http.ResponseWriter, r *http.Request) {
				page, ok := test.pages[r.URL.Query().Get("since")]
				if page == "404" || r.URL.Path != consensusPath {
					http.NotFound(w, r)
					return
				}
				if !ok {
					page = list()
				}
				_, _ = io.WriteString(w, page)
			})
			order := must.Get(newConsensusLog(url))(t)
			var got []int
			gap, err := order.follow(t.Context(), func(e logEntry) { got = append(got, int(e.Hash[31])) })
			order.http.CloseIdleConnections()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if (err != nil) != test.fails || gap != test.gap {
				t.Errorf("gap %v, error %v", gap, err)
			}
		})
	}
}
