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

// TestCutAnswer: a part of an answer is none, even one that can be read.
func TestCutAnswer(t *testing.T) {
	c := New("http://127.0.0.1:1", "")
	c.http.Transport = saying{http.StatusOK, `{"id":"a"}` + strings.Repeat(" ", maxAnswer)}
	if tx, err := c.Get(t.Context(), "a", ""); err == nil {
		t.Errorf("a part of an answer is %+v", tx)
	}
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
