package mirrorrest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lockstep/devnet/ledger"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/must"
)

// faulty serves a ledger over a socket, where connections can break.
func faulty(t *testing.T, closing <-chan struct{}, fault func(*http.Request) mirrorrest.Fault) *httptest.Server {
	t.Helper()
	l := must.Get(ledger.New(ledger.Config{}))(t)
	server := httptest.NewServer(mirrorrest.New(mirrorrest.Config{
		View: l.View, Log: slog.New(slog.DiscardHandler), Closing: closing, Fault: fault,
	}))
	t.Cleanup(server.Close)
	return server
}

// fetched is what a client saw of an answer.
type fetched struct {
	status     int
	retryAfter string
	json       bool
	err        error // the connection broke, before the answer or within it
}

func fetch(ctx context.Context, t *testing.T, url string) (f fetched) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/v1/blocks", nil))(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return fetched{err: err}
	}
	defer answer.Body.Close()
	f.status, f.retryAfter = answer.StatusCode, answer.Header.Get("Retry-After")
	body, err := io.ReadAll(answer.Body)
	f.err, f.json = err, json.Valid(body)
	return f
}

func TestFaults(t *testing.T) {
	tests := map[string]struct {
		fault mirrorrest.Fault
		want  fetched
		cut   bool
	}{
		"none":              {mirrorrest.Fault{}, fetched{status: 200, json: true}, false},
		"absent":            {mirrorrest.Fault{Status: 404}, fetched{status: 404, json: true}, false},
		"throttled":         {mirrorrest.Fault{Status: 429, RetryAfter: 1500 * time.Millisecond}, fetched{status: 429, retryAfter: "2", json: true}, false},
		"broken":            {mirrorrest.Fault{Status: 503}, fetched{status: 503, json: true}, false},
		"late":              {mirrorrest.Fault{Delay: time.Millisecond}, fetched{status: 200, json: true}, false},
		"slow":              {mirrorrest.Fault{Pause: time.Millisecond}, fetched{status: 200, json: true}, false},
		"garbage":           {mirrorrest.Fault{Garbage: true}, fetched{status: 200}, false},
		"dropped":           {mirrorrest.Fault{Drop: true}, fetched{}, true},
		"cut":               {mirrorrest.Fault{Cut: true}, fetched{status: 200}, true},
		"cut after a while": {mirrorrest.Fault{Cut: true, Pause: time.Millisecond}, fetched{status: 200}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := faulty(t, nil, func(*http.Request) mirrorrest.Fault { return test.fault })
			got := fetch(t.Context(), t, server.URL)
			if cut := got.err != nil; cut != test.cut {
				t.Fatalf("%+v", got)
			}
			got.err = nil
			if got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestHangEndsWithTheClientOrTheServer(t *testing.T) {
	arrived, closing := make(chan struct{}, 2), make(chan struct{})
	server := faulty(t, closing, func(*http.Request) mirrorrest.Fault {
		arrived <- struct{}{}
		return mirrorrest.Fault{Hang: true}
	})
	ended := make(chan fetched, 1)
	ctx, giveUp := context.WithCancel(t.Context())
	go func() { ended <- fetch(ctx, t, server.URL) }()
	<-arrived
	giveUp()
	if got := <-ended; !errors.Is(got.err, context.Canceled) {
		t.Errorf("the client that went away: %+v", got)
	}
	go func() { ended <- fetch(t.Context(), t, server.URL) }()
	<-arrived
	close(closing)
	if got := <-ended; got.err == nil {
		t.Errorf("the client of a server that stopped: %+v", got)
	}
}
