package diff

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

func TestCompare(t *testing.T) {
	const batch = `[{"id":1,"method":"eth_a"},{"id":2,"method":"eth_b"}]`
	tests := map[string]struct {
		request string // {"method":"m"} by default
		a, b    string // body, or status and body
		ignore  string
		shape   string
		want    []string
	}{
		"the same":                 {a: `{"result":1}`, b: `{"result":1}`},
		"order and space":          {a: `{"id":1,"result":[1,2]}`, b: "{ \"result\": [1,\t2],\n\"id\":1 }"},
		"spelling of a string":     {a: `{"result":"\u0041"}`, b: `{"result":"A"}`},
		"value":                    {a: `{"result":{"logs":[{"data":"0x1"},{"data":"0x2"}]}}`, b: `{"result":{"logs":[{"data":"0x1"},{"data":"0x3"}]}}`, want: []string{`result.logs[1].data: "0x2" != "0x3"`}},
		"case of hex":              {a: `{"result":"0xAB"}`, b: `{"result":"0xab"}`, want: []string{`result: "0xAB" != "0xab"`}},
		"number and string":        {a: `{"result":1}`, b: `{"result":"1"}`, want: []string{`result: 1 != "1"`}},
		"spelling of a number":     {a: `{"result":1}`, b: `{"result":1.0}`, want: []string{`result: 1 != 1.0`}},
		"large numbers":            {a: `{"result":90071992547409931}`, b: `{"result":90071992547409932}`, want: []string{`result: 90071992547409931 != 90071992547409932`}},
		"null and absent":          {a: `{"result":{"x":null}}`, b: `{"result":{}}`, want: []string{`result.x: only a has it: null`}},
		"only b":                   {a: `{"result":{}}`, b: `{"result":{"y":[1]}}`, want: []string{`result.y: only b has it: [1]`}},
		"true and false":           {a: `{"result":true}`, b: `{"result":false}`, want: []string{`result: true != false`}},
		"length":                   {a: `{"result":[1,2]}`, b: `{"result":[1]}`, want: []string{`result: 2 elements != 1`}},
		"result and error":         {a: `{"result":1}`, b: `{"error":{"code":-1}}`, want: []string{`error: only b has it: {"code":-1}`, `result: only a has it: 1`}},
		"status":                   {a: "400 {}", b: "200 {}", want: []string{"status: 400 != 200"}},
		"status ignored":           {a: "400 {}", b: "200 {}", ignore: "status"},
		"request id":               {a: `{"error":{"message":"[Request ID: 1-2] no"}}`, b: `{"error":{"message":"[Request ID: 3] no"}}`},
		"request id and none":      {a: `{"error":{"message":"[Request ID: 1-2] no"}}`, b: `{"error":{"message":"no"}}`},
		"request id in a result":   {a: `{"result":"[Request ID: 1] x"}`, b: `{"result":"[Request ID: 2] x"}`, want: []string{`result: "[Request ID: 1] x" != "[Request ID: 2] x"`}},
		"ignored with its members": {a: `{"result":{"x":{"y":1}}}`, b: `{"result":{"x":{"y":2}}}`, ignore: "result.x"},
		"ignored everywhere":       {a: `{"result":[{"x":1},{"x":1}]}`, b: `{"result":[{"x":2},{"x":3}]}`, ignore: "m:result[*].x"},
		"ignored if absent":        {a: `{"result":{"x":1}}`, b: `{"result":{}}`, ignore: "result.*"},
		"another method":           {a: `{"result":1}`, b: `{"result":2}`, ignore: "n:result", want: []string{"result: 1 != 2"}},
		"a pattern of methods":     {a: `{"result":1}`, b: `{"result":2}`, ignore: "[l-n]*:result"},
		"shape":                    {a: `{"result":"0x1"}`, b: `{"result":"0x2"}`, shape: "result"},
		"another shape":            {a: `{"result":"0x1"}`, b: `{"result":null}`, shape: "result", want: []string{`result: "0x1" != null`}},
		"always by shape":          {request: `{"method":"web3_clientVersion"}`, a: `{"result":"x"}`, b: `{"result":"y"}`},
		"batch by id":              {request: batch, a: `[{"id":1,"result":1},{"id":2,"result":2}]`, b: `[{"id":2,"result":2},{"id":1,"result":1}]`},
		"batch, one differs":       {request: batch, a: `[{"id":1,"result":1},{"id":2,"result":2}]`, b: `[{"id":2,"result":3},{"id":1,"result":1}]`, want: []string{`[1].result: 2 != 3`}},
		"batch, one is ignored":    {request: batch, a: `[{"id":1,"result":1},{"id":2,"result":2}]`, b: `[{"id":2,"result":3},{"id":1,"result":1}]`, ignore: "eth_b:result"},
		"batch, one is missing":    {request: batch, a: `[{"id":1,"result":1},{"id":2,"result":2}]`, b: `[{"id":1,"result":1}]`, want: []string{"batch: 2 answers != 1", `[1].answer: only a has it: {"id":2,"result":2}`}},
		"batch without ids":        {request: batch, a: `[{"id":null,"x":1},{"id":null,"x":2}]`, b: `[{"id":null,"x":1},{"id":null,"x":3}]`, want: []string{`[1].x: 2 != 3`}},
		"batch refused as a whole": {request: batch, a: `[{"id":1},{"id":2}]`, b: `{"error":1}`, want: []string{`body: [{"id":1},{"id":2}] != {"error":1}`}},
		"garbage":                  {a: `{}`, b: "502 <html>\x1b[2J", want: []string{"status: 200 != 502", "body: JSON != not JSON: <html>·[2J"}},
		"no body":                  {a: `{}`, b: "200 ", want: []string{"body: JSON != no body"}},
		"the same garbage":         {a: `oops`, b: `oops`},
		"odd keys":                 {a: `{"a.b":1,"\u001b":1}`, b: `{"a.b":2,"\u001b":2}`, want: []string{`"\x1b": 1 != 2`, `"a.b": 1 != 2`}},
		"deep":                     {a: strings.Repeat("[", 5000) + strings.Repeat("]", 5000), b: strings.Repeat("[", 5001) + strings.Repeat("]", 5001), want: []string{strings.Repeat("[0]", 64)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.request == "" {
				tt.request = `{"method":"m"}`
			}
			r := &rules{shape: parsePatterns(alwaysShape), shown: 10}
			if tt.ignore != "" {
				r.ignore = parsePatterns([]string{tt.ignore})
			}
			if tt.shape != "" {
				r.shape = append(r.shape, parsePatterns([]string{tt.shape})...)
			}
			found, more := r.compare(classify(1, []byte(tt.request)), answerOf(tt.a), answerOf(tt.b))
			var got []string
			for _, d := range found {
				got = append(got, d.Path+": "+d.Text)
			}
			if name == "deep" && len(got) == 1 { // the text is of no interest
				got[0], _, _ = strings.Cut(got[0], ":")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || more != 0 {
				t.Errorf("(-want +got), %d more\n%s", more, diff)
			}
		})
	}
}

func answerOf(text string) answer {
	if status, body, found := strings.Cut(text, " "); found {
		if n, err := strconv.Atoi(status); err == nil {
			return answer{n, []byte(body)}
		}
	}
	return answer{200, []byte(text)}
}

func TestDifferencesAreBounded(t *testing.T) {
	list := func(v int) answer {
		return answerOf(`{"result":[` + strings.TrimSuffix(strings.Repeat(strconv.Itoa(v)+",", 1000), ",") + `]}`)
	}
	r := &rules{shown: 7}
	found, more := r.compare(request{}, list(1), list(2))
	if len(found) != 7 || more != 993 {
		t.Errorf("%d found, %d more", len(found), more)
	}
}

func TestRequestsOfAFile(t *testing.T) {
	tests := map[string]struct {
		in     string
		body   string
		method string
		err    string
	}{
		"short":             {in: `{"method":"m","params":[1]}`, body: `{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`, method: "m"},
		"short, no params":  {in: `  {"method":"m"}`, body: `{"jsonrpc":"2.0","id":1,"method":"m"}`, method: "m"},
		"whole":             {in: `{"jsonrpc":"2.0","id":"x","method":"m","x":0}`, body: `{"jsonrpc":"2.0","id":"x","method":"m","x":0}`, method: "m"},
		"wrong version":     {in: `{"jsonrpc":"1.0","method":"m"}`, body: `{"jsonrpc":"1.0","method":"m"}`, method: "m"},
		"batch":             {in: `[{"method":"m"},7]`, body: `[{"method":"m"},7]`, method: "invalid"},
		"good batch":        {in: `[{"id":1,"method":"m"}]`, body: `[{"id":1,"method":"m"}]`, method: "batch"},
		"io":                {in: `>> {"jsonrpc":"2.0","id":1,"method":"m"}`, body: `{"jsonrpc":"2.0","id":1,"method":"m"}`, method: "m"},
		"io, broken":        {in: `>> {"jsonrpc`, body: `{"jsonrpc`, method: "invalid"},
		"io, answer":        {in: `<< {"jsonrpc":"2.0","id":1,"result":1}`},
		"comments":          {in: "# one\n// two\n\n   \n"},
		"broken":            {in: `{"method":`, err: "line 1: not JSON"},
		"not a request":     {in: "\n17", err: "line 2: want a request"},
		"without a method":  {in: `{"jsonrpc":"2.0","id":1}`, err: "line 1: want a request"},
		"longer than usual": {in: `{"jsonrpc":"2.0","id":1,"method":"m","params":["` + strings.Repeat("a", 1<<20) + `"]}`, body: `{"jsonrpc":"2.0","id":1,"method":"m","params":["` + strings.Repeat("a", 1<<20) + `"]}`, method: "m"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var body, method, failure string
			for r, err := range readRequests(strings.NewReader(tt.in)) {
				if err != nil {
					failure = err.Error()
					continue
				}
				body, method = body+string(r.body), r.method
			}
			if body != tt.body || method != tt.method {
				t.Errorf("%s %.200s", method, body)
			}
			if !strings.HasPrefix(failure, tt.err) || (failure == "") != (tt.err == "") {
				t.Errorf("error %q, want %q", failure, tt.err)
			}
		})
	}
}

func TestPinReplacesParametersOnly(t *testing.T) {
	tests := map[string]string{
		`{"method":"latest","id":"latest","params":["latest",{"toBlock":"latest","latest":1},"\"latest\"",12345678901234567890]}`:
		/**/ `{"id":"latest","method":"latest","params":["0x10",{"latest":1,"toBlock":"0x10"},"\"latest\"",12345678901234567890]}`,
		`[{"params":["latest"]},7]`:           `[{"params":["0x10"]},7]`,
		`{"params":["latest"]`:                `{"params":["latest"]`,
		`{"params":["earliest"], "spaced":1}`: `{"params":["earliest"], "spaced":1}`,
	}
	for in, want := range tests {
		if got := string(pin(request{body: []byte(in)}, 16).body); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

// serve answers every request with f.
func serve(t *testing.T, f http.HandlerFunc) Endpoint {
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return Endpoint{URL: server.URL}
}

func TestOnlyTheHostsGivenAreContacted(t *testing.T) {
	var visits atomic.Int32
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { visits.Add(1) })
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	t.Setenv("HTTP_PROXY", elsewhere.URL)
	var out strings.Builder
	summary, err := Run(t.Context(), Config{A: a, B: a}, strings.NewReader(`{"method":"m"}`), &out)
	if err != nil || visits.Load() != 0 || summary.Total.Same != 1 {
		t.Errorf("%v, %d visits, %+v\n%s", err, visits.Load(), summary.Total, out.String())
	}
}

func TestHeadersAreSentAndNotShown(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%t", r.Header.Get("Authorization") == "Bearer sesame")
	})
	b := a
	a.Header = http.Header{}
	must.Do(t, ParseHeader(a.Header, "authorization:  Bearer sesame"))
	var out strings.Builder
	must.Get(Run(t.Context(), Config{A: a, B: b}, strings.NewReader(`{"method":"m"}`), &out))(t)
	if !strings.Contains(out.String(), "body: true != false") || strings.Contains(out.String(), "sesame") {
		t.Error(out.String())
	}
	if err := ParseHeader(http.Header{}, "sesame"); err == nil || strings.Contains(err.Error(), "sesame") {
		t.Errorf("a header without a name: %v", err)
	}
}

func TestLargeAnswersAreNotRead(t *testing.T) {
	large := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat(" ", 2000)) })
	var out strings.Builder
	summary, err := Run(t.Context(), Config{A: large, B: large, MaxAnswer: 1000}, strings.NewReader(`{"method":"m"}`), &out)
	if err != nil || summary.Total.Trouble != 1 || !strings.Contains(out.String(), "more than 1000 bytes") {
		t.Errorf("%v %+v\n%s", err, summary.Total, out.String())
	}
}

// Answers come in any order; the report is in that of the input. A broken line ends it
// after what stands before.
func TestOrderOfTheReport(t *testing.T) {
	var n atomic.Int32
	counting := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, n.Add(1)) })
	var out strings.Builder
	summary, err := Run(t.Context(), Config{A: counting, B: counting, Concurrency: 8, RPS: 1e6}, strings.NewReader(strings.Repeat("{\"method\":\"m\"}\n", 100)+"oops\n"+`{"method":"m"}`), &out)
	if err == nil || !strings.HasPrefix(err.Error(), "line 101: ") || summary.Total.Different != 100 {
		t.Errorf("%v %+v", err, summary.Total)
	}
	last := 0
	for line := range strings.Lines(out.String()) {
		if number, found := strings.CutPrefix(line, "line "); found {
			text, _, _ := strings.Cut(number, " ")
			got, err := strconv.Atoi(text)
			if err != nil || got != last+1 {
				t.Fatalf("%q comes after line %d", line, last)
			}
			last = got
		}
	}
}

func TestJSONReport(t *testing.T) {
	var n atomic.Int32
	counting := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"result":[{"x":%d}]}`, n.Add(1)) })
	var out strings.Builder
	must.Get(Run(t.Context(), Config{A: counting, B: counting, JSON: true, Concurrency: 1}, strings.NewReader(`{"method":"m"}`), &out))(t)
	for _, want := range []string{
		`"differences":[{"path":"result[0].x"`, `"line":1`, `{"summary":{"total":{"sent":1,"same":0,"different":1,"trouble":0,"skipped":0}`,
		`"places":[{"method":"m","path":"result[*].x","requests":1}]`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in\n%s", want, out.String())
		}
	}
}
