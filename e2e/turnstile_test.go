package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// turnstile stands in front of a relay, changes nothing, and tells when a raw
// transaction has gone through. With it a test can start a client exactly when
// the client before it has been heard.
type turnstile struct {
	URL    string
	passed chan uint64 // nonces, in the order in which the relay got them
}

func startTurnstile(t *testing.T, relay string, capacity int) *turnstile {
	t.Helper()
	target, err := url.Parse(relay)
	if err != nil {
		t.Fatal(err)
	}
	gate := &turnstile{passed: make(chan uint64, capacity)}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConnsPerHost: capacity},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if nonce, ok := rawNonce(body); ok {
			trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { gate.passed <- nonce }}
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), trace))
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	gate.URL = server.URL
	return gate
}

// rawNonce gives the nonce of the raw transaction that a request body submits.
func rawNonce(body []byte) (uint64, bool) {
	var request struct {
		Method string
		Params []hexutil.Bytes
	}
	if json.Unmarshal(body, &request) != nil || request.Method != "eth_sendRawTransaction" || len(request.Params) != 1 {
		return 0, false
	}
	var transaction types.Transaction
	if transaction.UnmarshalBinary(request.Params[0]) != nil {
		return 0, false
	}
	return transaction.Nonce(), true
}
