package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"lockstep/internal/secret"
)

func TestNothingShowsTheSecret(t *testing.T) {
	s := secret.String("hunter2")
	holder := struct {
		Key     secret.String
		Pointer *secret.String
	}{s, &s}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s %q %x %v %+v %#v", s, s, s, s, s, s, holder, holder, holder)
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "key", s, "holder", holder)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "key", s, "holder", holder)
	if err := json.NewEncoder(&out).Encode(holder); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hunter2") || !strings.Contains(out.String(), "*****") {
		t.Errorf("printed %s", out.String())
	}
	if s.Reveal() != "hunter2" || secret.String("").String() != "" {
		t.Error("the secret itself is not there")
	}
	var read secret.String
	if err := read.UnmarshalText([]byte("x")); err != nil || read.Reveal() != "x" {
		t.Errorf("UnmarshalText gave %q, %v", read.Reveal(), err)
	}
}

func TestURL(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"https://mirror.example/x":        "https://mirror.example",
		"https://mirror.example?key=k":    "https://mirror.example",
		"https://mirror.example#k":        "https://mirror.example",
		"mirror.example:443/key/api/v1":   "mirror.example:443",
		"http://[::1]:5551/key":           "http://[::1]:5551",
		"https://user:pw@mirror.example":  "https://mirror.example",
		"https://user:p@w@a.example/b@c":  "https://a.example",
		"user:pw@a.example:1/x":           "a.example:1",
		"key with spaces":                 "**********",
		"http://a.example:1, http://k@b/": "http://a.example:1,http://b",
	} {
		u := secret.URL(text)
		encoded, err := json.Marshal(u)
		if quoted := fmt.Sprintf("%q", want); err != nil || string(encoded) != quoted || u.String() != want || fmt.Sprintf("%v %#v", u, u) != want+" "+want || u.LogValue().String() != want {
			t.Errorf("%s is shown as %s, want %s", text, encoded, quoted)
		}
		if u.Reveal() != text {
			t.Errorf("%s is revealed as %s", text, u.Reveal())
		}
	}
}
