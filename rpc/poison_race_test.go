//go:build race

package rpc

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"lockstep/internal/jsonx"
)

// TestKeptViewsAreSeen: a handler that keeps a view of its parameters finds no JSON there when
// the request is over, however it came in.
func TestKeptViewsAreSeen(t *testing.T) {
	var kept jsonx.Value
	r, err := NewRegistry(Method{Name: "eth_keep", AnyParams: true, Handler: func(_ context.Context, p *Params) (any, error) {
		kept = p.Raw()
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"eth_keep","params":["` + strings.Repeat("a", 3000) + `"]}`
	for name, header := range map[string]string{"plain": "", "through net/http": "identity"} {
		d := testDispatcher(t, testConfig(), Options{})
		d, err := NewDispatcher(d.config, r, Options{Logger: d.log, Metrics: NewMetrics()})
		if err != nil {
			t.Fatal(err)
		}
		url := serveHTTP(t, d, HTTPOptions{})
		fields := map[string][]string{}
		if header != "" {
			fields["Content-Encoding"] = []string{header}
		}
		postWith(t, url, strings.NewReader(body), fields)
		postWith(t, url, strings.NewReader(call1("eth_chainId")), fields)
		if !bytes.Contains(kept, []byte{0xdb}) {
			t.Errorf("%s: a kept view still reads %.20q", name, kept)
		}
	}
}
