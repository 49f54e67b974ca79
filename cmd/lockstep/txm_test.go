package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
		if err := printSigners(&out, []client.Signer{signer}); err != nil {
			t.Fatal(err)
		}
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
