package secret_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"lockstep/internal/secret"
)

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
