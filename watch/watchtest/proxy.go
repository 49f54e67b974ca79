package watchtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Call is one call of JSON-RPC, and its answer.
type Call struct {
	V      string            `json:"jsonrpc"`
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method,omitempty"`
	Params []json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage   `json:"result,omitempty"`
	Error  json.RawMessage   `json:"error,omitempty"`

	Context  context.Context `json:"-"` // of the request that it came in
	Together int             `json:"-"` // how many calls came in that request
	Status   int             `json:"-"` // what the request is answered with, if that is not 0
	node     string
}

// Ask has the node answer, also when the asker has gone.
func (c *Call) Ask() {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // it was read as JSON
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(c.Context), http.MethodPost, c.node, bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err == nil {
		err = errors.Join(json.NewDecoder(answer.Body).Decode(c), answer.Body.Close())
	}
	if err != nil { // the node is gone
		c.Status = http.StatusBadGateway
	}
}

// Say answers with a value.
func (c *Call) Say(value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	c.Result = text
}

// Proxy is an endpoint before a node that answers each call, alone or in a batch, as it is told.
func Proxy(t testing.TB, node string, answer func(c *Call)) (url string) {
	t.Helper()
	server := httptest.NewServer(Between(node, answer))
	t.Cleanup(server.Close)
	return server.URL
}

// Between is what Proxy serves.
func Between(node string, answer func(c *Call)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var calls []*Call
		alone := json.Unmarshal(text, &calls) != nil
		if alone {
			calls = []*Call{{}}
			err = errors.Join(err, json.Unmarshal(text, calls[0]))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		status := 0
		for _, c := range calls {
			c.node, c.Context, c.Together = node, r.Context(), len(calls)
			answer(c)
			c.Method, c.Params = "", nil
			status = cmp.Or(c.Status, status)
		}
		if status != 0 {
			http.Error(w, "no", status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if alone {
			_ = json.NewEncoder(w).Encode(calls[0])
		} else {
			_ = json.NewEncoder(w).Encode(calls)
		}
	}
}
