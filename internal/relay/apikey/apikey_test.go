package apikey

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
	"lockstep/internal/secret"
)

// made is a key and its line of a file.
func made(t *testing.T, name string) (token, text string) {
	t.Helper()
	key, text := must.Get2(New(name))(t)
	return key.Reveal(), text
}

func written(t *testing.T, lines ...string) (f File, name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "keys.txt")
	must.Do(t, os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600))
	must.Do(t, f.UnmarshalText([]byte(name)))
	return f, name
}

func TestAKeyIsFoundByItsTokenAlone(t *testing.T) {
	shop, shopLine := made(t, "shop")
	other, otherLine := made(t, "other")
	f, name := written(t, "# ours", shopLine+" calls=600 weight=1200 methods=eth_*,net_version # a note", "", otherLine)
	ring := NewRing(f)
	if !ring.On() || f.Holders() != 2 {
		t.Fatalf("on %v, %d holders", ring.On(), f.Holders())
	}
	h, ok := ring.Find(shop)
	if !ok || h.Name != "shop" || h.Calls != 600 || h.Weight != 1200 {
		t.Fatalf("%+v, %v", h, ok)
	}
	for method, want := range map[string]bool{"eth_call": true, "eth_": true, "net_version": true, "net_versions": false, "debug_traceCall": false} {
		if h.May(method) != want {
			t.Errorf("%s: %v", method, !want)
		}
	}
	if h, ok := ring.Find(other); !ok || h.Name != "other" || !h.May("debug_traceCall") {
		t.Errorf("%+v, %v", h, ok)
	}
	for _, bad := range []string{"", tokenPrefix, shop[:len(shop)-1], shop + "x", shop[len(tokenPrefix):], strings.ToUpper(shop), tokenPrefix + strings.Repeat("x", 1<<20)} {
		if h, ok := ring.Find(bad); ok {
			t.Errorf("%.60q is %s's", bad, h.Name)
		}
	}
	stored, err := os.ReadFile(name)
	if err != nil || strings.Contains(string(stored), shop[len(tokenPrefix):]) {
		t.Errorf("the file has the key; %v", err)
	}
	if text, err := f.MarshalText(); err != nil || string(text) != name {
		t.Errorf("shown as %q, %v", text, err)
	}
}

func TestWithoutAFileKeysMeanNothing(t *testing.T) {
	if NewRing(File{}).On() || (*Ring)(nil).On() {
		t.Error("on")
	}
}

// For a while both keys are valid, then the new one alone.
func TestAKeyIsReplacedWithoutAGap(t *testing.T) {
	first, firstLine := made(t, "shop")
	second, secondLine := made(t, "shop")
	_, hash, _ := strings.Cut(secondLine, " ")
	load := func(text string) File { f, _ := written(t, text); return f }
	ring := NewRing(load(firstLine))
	old, ok := ring.Find(first)
	if !ok {
		t.Fatal("not found")
	}
	ring.Replace(load(firstLine + "," + hash + " calls=5"))
	for _, token := range []string{first, second} {
		if h, ok := ring.Find(token); !ok || h.Name != "shop" || h.Calls != 5 {
			t.Errorf("%+v, %v", h, ok)
		}
	}
	if now, ok := ring.Current(old); !ok || now.Calls != 5 {
		t.Errorf("now %+v, %v", now, ok)
	}
	ring.Replace(load(secondLine))
	if _, ok := ring.Find(first); ok {
		t.Error("the old key is valid")
	}
	if _, ok := ring.Current(old); ok {
		t.Error("who has the old key is still let in")
	}
	if _, ok := ring.Find(second); !ok {
		t.Error("the new key is not valid")
	}
}

func TestMetricsHaveNamesAndNoKeys(t *testing.T) {
	token, text := made(t, "shop")
	f, _ := written(t, text)
	ring := NewRing(f)
	h, _ := ring.Find(token)
	h.Used(4)
	h.Used(1)
	h.Refused(ByLimit)
	ring.Refused(Unknown)
	counted := func() must.Metrics { return must.Measure(t, ring.Collectors()...) }
	if diff := cmp.Diff(must.Metrics{
		"lockstep_api_key_calls_total shop": 2, "lockstep_api_key_refused_calls_total shop limit": 1,
		"lockstep_api_key_refused_requests_total unknown": 1, "lockstep_api_key_weight_total shop": 5,
	}, counted()); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	ring.Replace(File{})
	if diff := cmp.Diff(must.Metrics{"lockstep_api_key_refused_requests_total unknown": 1}, counted()); diff != "" {
		t.Errorf("when the key is gone (-want +got):\n%s", diff)
	}
}

func TestMistakesOfAFileAreAllToldAndNoKeyIsShown(t *testing.T) {
	token, text := made(t, "shop")
	_, more := made(t, "shop")
	_, hash, _ := strings.Cut(text, " ")
	for name, test := range map[string]struct{ text, want string }{
		"no hash":          {"shop", "lockstep keys new shop"},
		"a key as hash":    {"shop " + token, "sha256:"},
		"a key as name":    {token + " " + hash, "a name has"},
		"a key at the end": {text + " " + token, "want calls="},
		"short hash":       {"shop sha256:00", "sha256:"},
		"five hashes":      {text + strings.Repeat(","+hash, 4), "the maximum is 4"},
		"name twice":       {text + "\n" + more, `line 2: the name "shop"`},
		"hash twice":       {text + "\nother " + hash, "line 2: a hash is there twice"},
		"no number":        {text + " calls=many", "calls: want a number"},
		"zero":             {text + " weight=0", "weight: want a number"},
		"twice":            {text + " calls=1 calls=2", "is there twice"},
		"unknown part":     {text + " rate=1", "want calls="},
		"star inside":      {text + " methods=e*h", "methods: want"},
		"star alone":       {text + " methods=*", "methods: want"},
		"no method":        {text + " methods=", "methods: want"},
		"several":          {"a\nb", "line 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckLine(test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v", err)
			}
			if strings.Contains(err.Error(), token[len(tokenPrefix):]) {
				t.Error("the error shows a key")
			}
			if name == "several" && !strings.Contains(err.Error(), "line 2: ") {
				t.Errorf("one mistake alone: %v", err)
			}
		})
	}
}

func TestAFileIsBounded(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		name := filepath.Join(dir, "keys")
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	var f File
	if err := f.UnmarshalText([]byte(write(strings.Repeat("#", maxBytes+1)))); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a long file: %v", err)
	}
	if err := f.UnmarshalText([]byte(write(strings.Repeat("#", maxBytes)))); err != nil {
		t.Errorf("a file of the largest size: %v", err)
	}
	var b strings.Builder
	for i := range maxHolders + 1 {
		h := secret.HashOf(fmt.Sprint(i))
		fmt.Fprintf(&b, "k%d sha256:%x\n", i, h[:])
	}
	if err := f.UnmarshalText([]byte(write(b.String()))); err == nil || !strings.Contains(err.Error(), "1001 keys") {
		t.Errorf("many keys: %v", err)
	}
	if err := f.UnmarshalText([]byte(dir)); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if err := f.UnmarshalText([]byte(filepath.Join(dir, "none"))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
