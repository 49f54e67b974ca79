package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/relay/lifecycle"
)

// The page hears of the steps of all transactions, from where it has heard of them.
func TestSteps(t *testing.T) {
	d := deps(t, "")
	trace := lifecycle.Disabled()
	trace.Follow(d.Steps)
	trace.Record(common.Hash{1}, lifecycle.Step{Name: lifecycle.Received, Sender: common.Address{2}, Nonce: 3})
	trace.Record(common.Hash{1}, lifecycle.Step{Name: lifecycle.Mirrored}) // it names no sender: no lane is concerned
	base := serve(t, d)
	for _, c := range []struct {
		method, path, body, want string
		status                   int
	}{
		{"GET", "/ui/steps?from=0", "", `"nonce":3,"hash":"0x01`, http.StatusOK},
		{"GET", "/ui/steps?from=1", "", `{"steps":[],"next":1,"now":`, http.StatusOK},
		{"GET", "/ui/steps?from=x", "", "the number of a step", http.StatusBadRequest},
		{"GET", "/ui/history?seconds=60", "", `{"methods":[],"points":[]}`, http.StatusOK},
		{"GET", "/ui/history?seconds=1e9", "", "from 4 to 3600", http.StatusBadRequest},
	} {
		if status, body, _ := ask(t, c.method, base+c.path, c.body); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d %.300s, want %d %s", c.method, c.path, status, body, c.status, c.want)
		}
	}
}
