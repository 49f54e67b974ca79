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
