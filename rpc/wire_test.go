package rpc

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

// script is a file of wire exchanges: ">>" lines are sent, the "<<" line after
// each is the answer, empty for none. Comment lines may set "profile" and
// "transport" for the file.
type script struct {
	name      string
	profile   Profile
	transport string // empty: both
	exchanges []wireExchange
}

type wireExchange struct {
	line         int
	send, expect string
}

func scripts(t *testing.T) []script {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.io")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var all []script
	for _, path := range paths {
		all = append(all, readScript(t, path))
	}
	return all
}

func readScript(t *testing.T, path string) script {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	s := script{name: filepath.Base(path), profile: ProfileHiero}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "// profile: "):
			s.profile = Profile(strings.TrimPrefix(line, "// profile: "))
		case strings.HasPrefix(line, "// transport: "):
			s.transport = strings.TrimPrefix(line, "// transport: ")
		case line == "", strings.HasPrefix(line, "//"):
		case strings.HasPrefix(line, ">> "):
			s.exchanges = append(s.exchanges, wireExchange{line: n, send: strings.TrimPrefix(line, ">> ")})
		case strings.HasPrefix(line, "<<"):
			s.exchanges[len(s.exchanges)-1].expect = strings.TrimSpace(strings.TrimPrefix(line, "<<"))
		default:
			t.Fatalf("%s:%d: not a line of a script", path, n)
		}
	}
	must.Do(t, lines.Err())
	return s
}

var requestIDPrefix = regexp.MustCompile(`\[Request ID: [0-9a-z-]+\] `)

// compareJSON compares answers regardless of member order and of the request id.
func compareJSON(t *testing.T, where, got, want string) {
	t.Helper()
	got = requestIDPrefix.ReplaceAllString(got, "[Request ID: test] ")
	if got == "" || want == "" {
		if got != want {
			t.Errorf("%s: got %q, want %q", where, got, want)
		}
		return
	}
	var g, w any
	decode := func(text string, v *any) {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(v); err != nil {
			t.Fatalf("%s: %v in %s", where, err, text)
		}
	}
	decode(got, &g)
	decode(want, &w)
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", where, diff)
	}
}

func TestScriptsOverHTTP(t *testing.T) {
	for _, s := range scripts(t) {
		if s.transport == "ws" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			c := testConfig()
			c.Profile = s.profile
			url := serveHTTP(t, testDispatcher(t, c, Options{}), HTTPOptions{})
			for _, x := range s.exchanges {
				_, answer := post(t, url, x.send)
				compareJSON(t, s.name+":"+itoa(x.line), answer, x.expect)
			}
		})
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
