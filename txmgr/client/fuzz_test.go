package client

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// saying answers every call with the same body.
type saying struct {
	status int
	body   string
}

func (s saying) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: s.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(s.body)), Request: r}, nil
}

var errEnough = errors.New("enough")

// Whatever comes in place of the stream is read or refused, and events are handed over with the
// cursor that the next call begins after.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"id: 1\nevent: tx.mined\ndata: {\"subject\":\"a\",\"at\":\"2026-01-31T12:00:00Z\",\"body\":{}}\n\n", ": ping\n\n", "id: 1\n\nid: 2\n\n", "id: x\n\n",
		"data: {\"ID\":9}\n\nid: 1\ndata: {\"ID\":-5}\n\n", "id: -1\n\n", "data: [\n\n", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		c := New("http://127.0.0.1:1", "key")
		after := int64(0)
		events := 0
		err := c.follow(t.Context(), &http.Client{Transport: saying{http.StatusOK, body}}, &after, func(e Event) error {
			if e.ID <= 0 {
				t.Errorf("an event with the cursor %d", e.ID)
			}
			if events > 0 && after <= 0 {
				t.Errorf("after an event the cursor is %d", after)
			}
			if events++; events == 10 {
				return errEnough
			}
			return nil
		})
		var stop *stopError
		if errors.As(err, &stop) != (events == 10) {
			t.Errorf("%d events ended with %v", events, err)
		}
	})
}

// Whatever comes as an error is an error with its status, and short.
func FuzzProblem(f *testing.F) {
	for _, seed := range []string{`{"code":"NONCE_CONFLICT","detail":"x","currentNonce":1}`, `{"status":200,"code":"a"}`, `<html>`, "", `{"code":""}`, "\xff"} {
		f.Add(500, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, status int, content []byte) {
		var p *Problem
		if err := problemOf(status, content); !errors.As(err, &p) || p.Status != status || len(err.Error()) > len(content)*utf8.UTFMax+300 {
			t.Errorf("%q is %v", content, err)
		}
	})
}
