package api_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// TestBodiesOfTheDocument types the calls that docs/TXM.md shows, in its order.
func TestBodiesOfTheDocument(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/TXM.md"))(t)
	_, block, found := strings.Cut(string(text), "\n```http\n")
	if block, _, _ = strings.Cut(block, "\n```\n"); !found {
		t.Fatal("the document has no calls")
	}
	w := start(t, nil)
	w.chain.pooled.Store(true) // what is sent can be replaced
	w.until("its signer is known", func() bool { return w.get("/health/readiness").status == 200 })
	names := map[string]string{
		"31337": "1337", "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266": signerName, "0x70997970C51812dc3A010C7d01b50e0d17dc79C8": callerName, "0x02f8…": signed(0, 1),
	}
	calls := 0
	for call := range strings.SplitSeq(block, "\n\n") {
		for from, to := range names {
			call = strings.ReplaceAll(call, from, to)
		}
		line, body, _ := strings.Cut(call, "\n")
		method, path, _ := strings.Cut(line, " ")
		if path == "/v1/transactions/"+names["{id}"]+"/replace" {
			w.until("it is sent", func() bool {
				return strings.Contains(w.get("/v1/transactions/"+names["{id}"]).body, `"status":"broadcast"`)
			})
		}
		a := w.ask(method, path, body)
		if a.status/100 != 2 {
			t.Errorf("%s\n%s\nanswers %d %s", line, body, a.status, a.body)
		}
		var answer struct{ ID, LockID string }
		if json.Unmarshal([]byte(a.body), &answer) == nil {
			if answer.ID != "" {
				names["{id}"] = answer.ID
			}
			if answer.LockID != "" {
				names["{lockId}"] = answer.LockID
			}
		}
		calls++
	}
	if calls < 25 {
		t.Errorf("the document has %d calls", calls)
	}
}
