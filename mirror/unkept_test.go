package mirror

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// bad are the answers that are none, by their kind.
func bad() map[string]http.HandlerFunc {
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fail(w, status, body) }
	}
	return map[string]http.HandlerFunc{
		"not found":         notFound,
		"throttled":         says(http.StatusTooManyRequests, ""),
		"broken":            says(http.StatusInternalServerError, `{"_status":{"messages":[{"message":"Internal error"}]}}`),
		"away":              says(http.StatusServiceUnavailable, "<html>"),
		"cut connection":    cutConnection,
		"cut answer":        cutBody,
		"cut text":          says(http.StatusOK, `{"number":17,"hash":"0x01`),
		"unreadable":        says(http.StatusOK, "<html>"),
		"of another kind":   says(http.StatusOK, `[]`),
		"immature":          immatureAnswer,
		"later page absent": secondPageAbsent,
	}
}

// immatureAnswer is the record as it is published before it is complete.
func immatureAnswer(w http.ResponseWriter, r *http.Request) {
	body := immature
	switch path := r.URL.Path; {
	case strings.Contains(path, "/results/logs"):
		body = `{"logs":[` + logJSON("0", "null") + `],"links":{"next":null}}`
	case strings.HasSuffix(path, "/results"):
		body = `{"results":[` + immature + `],"links":{"next":null}}`
	case strings.HasSuffix(path, "/blocks"):
		body = `{"blocks":[],"links":{"next":null}}`
	case strings.Contains(path, "/blocks/"):
		body = strings.Replace(blockJSON(17), `"1767225601.999999999"`, "null", 1)
	case !strings.Contains(path, "/contracts/"):
		notFound(w, r)
		return
	}
	_, _ = fmt.Fprint(w, body)
}

// secondPageAbsent begins lists well. What is not a list is not there.
func secondPageAbsent(w http.ResponseWriter, r *http.Request) {
	const next = `"links":{"next":"/api/v1/absent"}}`
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/results/logs"):
		_, _ = fmt.Fprint(w, `{"logs":[`+logJSON("5", "1")+`],`+next)
	case strings.HasSuffix(path, "/results"):
		_, _ = fmt.Fprint(w, `{"results":[`+resultJSON()+`],`+next)
	default:
		notFound(w, r)
	}
}

// Whatever goes wrong, it is not kept as an answer: not in this process and not for others.
func TestErrorsAreNotKept(t *testing.T) {
	server := redistest.Start(t)
	good := newNode(t)
	populate(good)
	chains := 0
	for kind, answer := range bad() {
		for _, read := range keptReads(t) {
			t.Run(kind+"/"+read.name, func(t *testing.T) {
				n := newNode(t)
				n.handler = answer
				chains++ // every case has records of its own
				oldest := strings.ReplaceAll(blocksJSON("null", 0), blockHash, fmt.Sprintf("0x%016x%048x", chains, 1))
				n.set(earliestPath, oldest)
				relay := sharing(t, server.URL(), n.URL, impatient)
				got, err := read.from(t.Context(), relay)
				if err == nil && !mayLack[kind] {
					t.Fatalf("%+v", got)
				}
				flushed(t, relay)
				populate(n)
				n.set(earliestPath, oldest)
				want := must.Get(read.from(t.Context(), connect(t, good.URL)))(t)
				for name, reader := range map[string]*Client{"the same relay": relay, "another one": sharing(t, server.URL(), n.URL)} {
					got, err := read.from(t.Context(), reader)
					if err != nil {
						t.Errorf("%s: %v", name, err)
					} else if diff := sameRecord(want, got); diff != "" {
						t.Errorf("%s (-want +got)\n%s", name, diff)
					}
				}
			})
		}
	}
}

// impatient waits for no mirror node that throttles.
func impatient(c *Config) { c.RetryBudget = 0 }

// mayLack are the kinds of which some reads make an answer that is good for now: an
// alias that is not there yet, a block that is still open.
var mayLack = map[string]bool{"not found": true, "immature": true, "later page absent": true}

// flushed waits until all that was put into the store has been written.
func flushed(t *testing.T, c *Client) {
	t.Helper()
	c.store.Put("flushed:"+t.Name(), []byte("yes")) // writes keep their order
	until(t, "the writes", func() bool { return c.store.Get(t.Context(), "flushed:"+t.Name()) != nil })
}
