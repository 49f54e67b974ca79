package ethchain

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// answering is an endpoint that answers every call with the same error.
func answering(t *testing.T, text string, asked *int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked++
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var q struct {
			ID     int
			Method string
		}
		_ = json.Unmarshal(body, &q)
		if q.Method == "eth_chainId" {
			*asked--
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":"0x5"}`, q.ID)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": q.ID, "error": map[string]any{"code": -32000, "message": text}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestIdentityUnknown: who does not say which chain it serves does not say that it is one without a first block.
func TestIdentityUnknown(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var list []struct{ ID int }
		if json.NewDecoder(r.Body).Decode(&list) != nil {
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"0x5"}`) // when it is asked alone
			return
		}
		var out []map[string]any
		for _, q := range list {
			out = append(out, map[string]any{"jsonrpc": "2.0", "id": q.ID, "error": map[string]any{"code": -32000, "message": "header not found"}})
		}
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(server.Close)
	c := must.Get(New(Config{ID: 5, URLs: []string{server.URL}}))(t)
	if got, err := c.Identity(t.Context()); err == nil {
		t.Errorf("the identity is %q", got)
	}
}

// TestBreaker: a nonce error never makes an endpoint rest, a lost answer does, and the next
// endpoint is asked then.
func TestBreaker(t *testing.T) {
	var first, second int
	good := answering(t, "nonce too low", &first)
	c := must.Get(New(Config{ID: 5, URLs: []string{good, answering(t, "already known", &second)}, Timeout: 2 * time.Minute}))(t)
	for range 50 {
		if got := txmgr.ClassOf(c.Send(t.Context(), []txmgr.Signed{{Hash: "0x1", Raw: []byte{1}}})[0]); got != txmgr.ClassNonceUsed {
			t.Fatalf("got %s", got)
		}
	}
	if since, _ := c.client.All()[0].Down(); !since.IsZero() || first != 50 || second != 0 {
		t.Fatalf("nonce errors moved the endpoint: asked %d and %d times, down since %v", first, second, since)
	}
	dead := must.Get(New(Config{ID: 5, URLs: []string{"http://127.0.0.1:1", answering(t, "already known", &second)}, Timeout: 2 * time.Minute}))(t)
	if got := txmgr.ClassOf(dead.Send(t.Context(), []txmgr.Signed{{Hash: "0x1", Raw: []byte{1}}})[0]); got != txmgr.ClassKnown {
		t.Fatalf("after an endpoint that does not answer: got %s", got)
	}
	if since, _ := dead.client.All()[0].Down(); since.IsZero() || second != 1 {
		t.Fatal("an endpoint that does not answer is asked first again")
	}
}
