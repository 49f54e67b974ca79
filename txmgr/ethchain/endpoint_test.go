package ethchain

import (
	"errors"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/watch/watchtest"
)

// TestIdentityUnknown: who does not say which chain it serves does not say that it is one without a first block.
func TestIdentityUnknown(t *testing.T) {
	url := watchtest.Proxy(t, "", func(c *watchtest.Call) {
		if c.Together == 1 {
			c.Say("0x5")
		} else {
			c.Error = []byte(`{"code":-32000,"message":"header not found"}`)
		}
	})
	c := must.Get(New(Config{ID: 5, URLs: []string{url}}))(t)
	if got, err := c.Identity(t.Context()); err == nil {
		t.Errorf("the identity is %q", got)
	}
}

// TestBreaker: a nonce error never makes an endpoint rest, a lost answer does, and the next
// endpoint is asked then.
func TestBreaker(t *testing.T) {
	var first, second int
	answering := func(t *testing.T, text string, asked *int) string {
		return scripted(t, func(string, []any) (any, error) { *asked++; return nil, errors.New(text) })
	}
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
