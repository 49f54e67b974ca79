package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lockstep/internal/must"
	"lockstep/txmgr/client"
)

// A signer that gets no intents is not shown as ready.
func TestSignersSayWhyTheyArePassedOver(t *testing.T) {
	for want, signer := range map[string]client.Signer{
		"ready":                    {Ours: true, Enabled: true},
		"passed over: low balance": {Ours: true, Enabled: true, PassedOver: "low balance"},
		"paused: tired":            {Ours: true, PausedReason: "tired", PassedOver: "paused: tired"},
		"halted: restored":         {Ours: true, Enabled: true, Halted: "restored", PassedOver: "halted: restored"},
		"caller signs":             {Enabled: true},
	} {
		signer.Chain, signer.Address = "1", "0xaa"
		var out strings.Builder
		must.Do(t, printSigners(&out, []client.Signer{signer}))
		_, row, _ := strings.Cut(out.String(), "\n")
		if !strings.HasPrefix(row, "1      0xaa     "+want+"  ") {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
}

// The commands for a running manager find it where the settings say that it listens.
func TestWhereTheManagerIs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"signers":[{"chain":"77","address":"0xab"}]}`)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for name, env := range map[string][]string{"by the setting": {"TXM_ADDRESS=" + address}, "by the flag": {"TXM_ADDRESS=127.0.0.1:1"}} {
		args := []string{"txm", "signers"}
		if name == "by the flag" {
			args = append(args, "--url", server.URL)
		}
		if code, out, errs := lockstep(t, env, args...); code != 0 || !strings.Contains(out, "0xab") {
			t.Errorf("%s: %d %q %q", name, code, out, errs)
		}
	}
}

// A transaction is sent from a shell under a key, with arguments as text or JSON; one that failed ends with a status of its own.
func TestSend(t *testing.T) {
	var got string
	answer := `{"id":"i1","status":"mined","hash":"0xabc","receipt":{"success":true}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.URL.String() + " " + r.Header.Get("Idempotency-Key") + " " + string(body)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	args := []string{"txm", "send", "77", "0xaa", "pay((address,bool)[],uint256)", `[["0xbb",true]]`, "1000", "--value", "5", "--key", "k1", "--url", server.URL}
	code, out, errs := lockstep(t, nil, args...)
	want := `/v1/transactions?timeout=1m0s&wait=mined k1 {"chain":"77","to":"0xaa","value":"5","function":"pay((address,bool)[],uint256)","args":[[["0xbb",true]],"1000"]}`
	if code != 0 || out != "i1 mined 0xabc\n" || strings.TrimSpace(got) != want {
		t.Errorf("%d %q %q\n got %s\nwant %s", code, out, errs, got, want)
	}
	answer = `{"id":"i1","status":"reverted","error":{"class":"reverted","message":"no money"}}`
	if code, _, errs := lockstep(t, nil, args...); code == 0 || !strings.Contains(errs, "reverted: no money") {
		t.Errorf("one that failed: %d %q", code, errs)
	}
	if code, _, errs := lockstep(t, nil, "txm", "send", "77"); code == 0 || !strings.Contains(errs, "want a receiver") {
		t.Errorf("nobody: %d %q", code, errs)
	}
}
