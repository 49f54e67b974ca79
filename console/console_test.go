package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/console"
	"lockstep/console/page"
	"lockstep/internal/access"
	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/secret"
	"lockstep/lock"
	"lockstep/watch/decode"
)

// switchable are locks whose one lane nobody holds.
type switchable struct{ on atomic.Bool }

func (s *switchable) Lanes() []lock.LaneInfo {
	expected := uint64(7)
	return []lock.LaneInfo{{Sender: common.Address{1}, Strategy: "local", Waiting: 1, Nonces: []uint64{8}, Expected: &expected}}
}

func (s *switchable) ForceRelease(context.Context, common.Address) (bool, error) { return false, nil }

func (s *switchable) On() bool           { return s.on.Load() }
func (s *switchable) Ordered() string    { return "10 % of senders" }
func (s *switchable) SetEnabled(on bool) { s.on.Store(on) }

func deps(t *testing.T, token string) console.Deps {
	t.Helper()
	registry := prometheus.NewRegistry()
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rpc_relay_method_response", Buckets: []float64{5, 10}}, []string{"method", "statusCode"})
	failed := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lockstep_rpc_errors_total"}, []string{"method", "code", "transport"})
	registry.MustRegister(duration, failed)
	duration.WithLabelValues("eth_chainId", "200").Observe(1)
	duration.WithLabelValues("eth_chainId", "400").Observe(7)
	duration.WithLabelValues("batch_request", "200").Observe(7)
	failed.WithLabelValues("eth_chainId", "-32602", "http").Inc()
	return console.Deps{
		Door: access.NewDoor(secret.String(token)), Version: "1.2.3", ChainID: 298, Locks: &switchable{}, Window: 250 * time.Millisecond,
		Upstreams: func(context.Context) []console.Upstream {
			return []console.Upstream{{Kind: "mirror", Name: "mirror.example", Up: true}}
		},
		Steps: new(lifecycle.Journal), Metrics: registry, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Record: func(_ context.Context, hash common.Hash) (lifecycle.Record, bool) {
			return lifecycle.Record{Status: "validated"}, hash == common.Hash{1}
		},
		Calls: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, r.Header.Get("Authorization")+r.URL.Path+string(body))
		}),
	}
}

// An upstream that is out takes seconds to say so. The lanes in a state are those of its end, not of its beginning.
func TestLanesAreAsNewAsTheState(t *testing.T) {
	t.Parallel()
	d := deps(t, "")
	d.Upstreams = func(context.Context) []console.Upstream {
		d.Locks.SetEnabled(true)
		return nil
	}
	d.Locks = &late{}
	next, _ := stream(t, serve(t, d))
	if s := next(); s.AllLanes != 1 {
		t.Errorf("%+v", s)
	}
}

// late has its lane once it is on.
type late struct{ switchable }

func (l *late) Lanes() []lock.LaneInfo {
	if !l.On() {
		return nil
	}
	return l.switchable.Lanes()
}

func serve(t *testing.T, d console.Deps) string {
	t.Helper()
	server := httptest.NewServer(console.New(d))
	t.Cleanup(server.Close)
	return server.URL
}

func ask(t *testing.T, method, url, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	got := must.Get(client.Do(r))(t)
	defer func() { _ = got.Body.Close() }()
	text := must.Get(io.ReadAll(got.Body))(t)
	return got.StatusCode, string(text), got.Header
}

// Whoever has the token gets in, from a program or from the page itself; no page of another origin does.
func TestWhoGetsIn(t *testing.T) {
	open, closed := serve(t, deps(t, "")), serve(t, deps(t, "sesame"))
	host := strings.TrimPrefix(closed, "http://")
	token := []string{"Authorization", "Bearer sesame"}
	with := func(headers ...string) []string { return append(headers, token...) }
	for name, c := range map[string]struct {
		base, path string
		headers    []string
		status     int
	}{
		"a program on loopback":                {open, "/locks", nil, 200},
		"by a name that leads to loopback":     {open, "/locks", []string{"Host", "evil.example"}, 403},
		"the page by such a name":              {open, "/ui/", []string{"Host", "evil.example"}, 403},
		"without the token":                    {closed, "/locks", nil, 401},
		"with a part of the token":             {closed, "/locks", []string{"Authorization", "Bearer sesam"}, 401},
		"with the token":                       {closed, "/locks", token, 200},
		"with the token and by any name":       {closed, "/locks", with("Host", "relay.example"), 200},
		"the page itself":                      {closed, "/locks", with("Sec-Fetch-Site", "same-origin", "Origin", "http://"+host), 200},
		"the page, without the token":          {closed, "/ui/events", []string{"Sec-Fetch-Site", "same-origin"}, 401},
		"a page of another origin":             {closed, "/locks", with("Origin", "http://evil.example"), 403},
		"a page of another port":               {closed, "/locks", with("Origin", "http://127.0.0.1:1"), 403},
		"a page of nowhere":                    {closed, "/locks", with("Origin", "null"), 403},
		"another site without an origin":       {open, "/locks", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another port of the same site":        {open, "/locks", []string{"Sec-Fetch-Site", "same-site"}, 403},
		"a link to the page":                   {closed, "/ui/", []string{"Sec-Fetch-Site", "cross-site"}, 200},
		"the page's script":                    {closed, "/ui/app.js", nil, 200},
		"the page's script, asked for by POST": {closed, "/ui/app.js", []string{"X-Method", "POST"}, 401},
		"what the page has not":                {closed, "/ui/page.go", nil, 401},
		"without the last slash":               {closed, "/ui", nil, 301},
		"what the process is":                  {closed, "/ui/about", nil, 200},
		"the same, for another origin":         {closed, "/ui/about", []string{"Origin", "http://evil.example"}, 403},
		"the same, by another name":            {open, "/ui/about", []string{"Host", "evil.example"}, 403},
	} {
		method := http.MethodGet
		if len(c.headers) > 0 && c.headers[0] == "X-Method" {
			method = c.headers[1]
		}
		if status, body, _ := ask(t, method, c.base+c.path, "", c.headers...); status != c.status {
			t.Errorf("%s: %d %s, want %d", name, status, body, c.status)
		}
	}
}

// The page hears what the process is. Only who has the token hears more than what to ask for.
func TestAbout(t *testing.T) {
	d := deps(t, "sesame")
	d.Beside = []page.Link{{Text: "Transaction manager", URL: "http://127.0.0.1:7550/ui/"}}
	base := serve(t, d)
	for header, want := range map[string]page.About{
		"Bearer sesame": {Version: "1.2.3", Role: access.RoleAdmin},
		"Bearer sesam":  {},
	} {
		var got page.About
		if _, body, _ := ask(t, "GET", base+"/ui/about", "", "Authorization", header); json.Unmarshal([]byte(body), &got) != nil {
			t.Fatal(body)
		}
		if want.Parts, want.Beside, want.Needs = []string{page.PartRelay}, d.Beside, got.Needs; !reflect.DeepEqual(got, want) || !strings.Contains(got.Needs, "ADMIN_TOKEN") {
			t.Errorf("%s: %+v, want %+v", header, got, want)
		}
	}
}

// stream listens, and returns each state as it comes.
func stream(t *testing.T, base string) (next func() console.State, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, base+"/ui/events", nil))(t)
	got := must.Get(http.DefaultClient.Do(r))(t)
	t.Cleanup(func() { _ = got.Body.Close() })
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", got.StatusCode, got.Header)
	}
	lines := bufio.NewScanner(got.Body)
	lines.Buffer(nil, 1<<20)
	return func() console.State {
		t.Helper()
		for lines.Scan() {
			text, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var s console.State
			must.Do(t, json.Unmarshal([]byte(text), &s))
			return s
		}
		t.Fatalf("the stream has ended: %v", lines.Err())
		return console.State{}
	}, cancel
}

// A page hears of the state when it comes, and of each change.
func TestEvents(t *testing.T) {
	d := deps(t, "")
	base := serve(t, d)
	next, _ := stream(t, base)
	s := next()
	if s.Ordering || s.Window != 250 || s.ChainID != 298 || s.Version != "1.2.3" || !s.Records || s.Dev || len(s.Upstreams) != 1 || !s.Upstreams[0].Up {
		t.Errorf("%+v", s)
	}
	if len(s.Lanes) != 1 || *s.Lanes[0].Expected != 7 || s.Lanes[0].Nonces[0] != 8 {
		t.Errorf("lanes %+v", s.Lanes)
	}
	if len(s.Methods) != 1 {
		t.Fatalf("methods %+v", s.Methods)
	}
	if m := s.Methods[0]; m.Name != "eth_chainId" || m.Calls != 2 || m.Failed != 1 || m.Millis != 8 || len(m.Buckets) != 2 || m.Buckets[0] != 1 || m.Buckets[1] != 2 || m.Bounds[1] != 10 {
		t.Errorf("method %+v", m)
	}
	d.Locks.SetEnabled(true)
	for !next().Ordering { // it comes, or the test's own limit ends the wait
	}
}

// No more than MaxStreams pages listen, and one that goes makes room.
func TestStreamsAreBounded(t *testing.T) {
	base := serve(t, deps(t, ""))
	var stops []func()
	for range console.MaxStreams {
		next, stop := stream(t, base)
		next()
		stops = append(stops, stop)
	}
	if status, body, header := ask(t, http.MethodGet, base+"/ui/events", ""); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Fatalf("%d %s", status, body)
	}
	stops[0]()
	// The server notices sooner or later that the client has gone.
	must.Until(t, "there is room after a page has gone", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, base+"/ui/events", nil))(t)
		got := must.Get(http.DefaultClient.Do(r))(t)
		_ = got.Body.Close()
		return got.StatusCode == http.StatusOK
	})
}

func TestRecords(t *testing.T) {
	d := deps(t, "")
	base := serve(t, d)
	d.Record = nil
	without := serve(t, d)
	for _, c := range []struct {
		base, hash string
		status     int
		want       string
	}{
		{base, common.Hash{1}.Hex(), 200, `"status":"validated"`},
		{base, common.Hash{2}.Hex(), 404, "nothing is known"},
		{base, "0x12", 400, "not the hash"},
		{without, common.Hash{1}.Hex(), 404, "TX_STATUS_TRACING"},
	} {
		if status, body, _ := ask(t, http.MethodGet, c.base+"/ui/records/"+c.hash, ""); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s, want %d %q", c.hash, status, body, c.status, c.want)
		}
	}
}

// Calls reach the relay without the console's token, and no more of them than a body may have.
func TestCalls(t *testing.T) {
	base := serve(t, deps(t, "sesame"))
	if _, body, _ := ask(t, http.MethodPost, base+"/ui/rpc", `{"id":1}`, "Authorization", "Bearer sesame"); body != `/{"id":1}` {
		t.Errorf("the relay got %q", body)
	}
	if _, body, _ := ask(t, http.MethodPost, base+"/ui/rpc", strings.Repeat(" ", 2<<20), "Authorization", "Bearer sesame"); len(body) > 1<<20+10 {
		t.Errorf("the relay got %d bytes", len(body))
	}
}

// The mirror node of the development network is asked, and no other host, whatever the path says.
func TestMirror(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+r.URL.RequestURI()+r.Header.Get("Authorization"))
	}))
	defer node.Close()
	d := deps(t, "sesame")
	d.Mirror, _ = url.Parse(node.URL)
	base := serve(t, d)
	host := strings.TrimPrefix(node.URL, "http://")
	for path, want := range map[string]string{
		"/ui/mirror/tokens?limit=3":         host + "/api/v1/tokens?limit=3",
		"/ui/mirror/http%3A%2F%2Fevil/":     host + "/api/v1/http:",
		"/ui/mirror/%2e%2e/%2e%2e/accounts": "",
	} {
		status, body, _ := ask(t, http.MethodGet, base+path, "", "Authorization", "Bearer sesame")
		if !strings.HasPrefix(body, want) || want == "" && status == http.StatusOK && !strings.HasPrefix(body, host+"/api/v1/") {
			t.Errorf("%s: %d %s, want %s", path, status, body, want)
		}
	}
}

// The page hears of the steps of all transactions, from where it has heard of them.
func TestSteps(t *testing.T) {
	d := deps(t, "")
	trace := lifecycle.Disabled()
	trace.Follow(d.Steps)
	trace.Record(common.Hash{1}, lifecycle.Step{Name: lifecycle.Received, Sender: common.Address{2}, Nonce: 3})
	trace.Record(common.Hash{1}, lifecycle.Step{Name: lifecycle.Mirrored}) // it names no sender: no lane is concerned
	base := serve(t, d)
	for _, c := range []struct {
		method, path, body, want string
		status                   int
	}{
		{"GET", "/ui/steps?from=0", "", `"nonce":3,"hash":"0x01`, http.StatusOK},
		{"GET", "/ui/steps?from=1", "", `{"steps":[],"next":1,"now":`, http.StatusOK},
		{"GET", "/ui/steps?from=x", "", "the number of a step", http.StatusBadRequest},
		{"GET", "/ui/history?seconds=60", "", `{"methods":[],"points":[]}`, http.StatusOK},
		{"GET", "/ui/history?seconds=1e9", "", "from 4 to 3600", http.StatusBadRequest},
	} {
		if status, body, _ := ask(t, c.method, base+c.path, c.body); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d %.300s, want %d %s", c.method, c.path, status, body, c.status, c.want)
		}
	}
}

const (
	alice = "0x1111111111111111111111111111111111111111"
	bob   = "0x2222222222222222222222222222222222222222"
)

func word(hex string) string { return strings.Repeat("0", 64-len(hex)) + hex }

func bare(address string) string { return strings.TrimPrefix(address, "0x") }

// Calls, errors and events are told in words: by an ABI, or by the signatures that are known without.
func TestDecode(t *testing.T) {
	base := serve(t, deps(t, ""))
	type arg struct {
		Name, Type string
		Value      any
	}
	type phrase struct {
		Name string
		Args []arg
	}
	type words struct {
		Call, Fail *phrase
		Logs       []*phrase
	}
	const transfers = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
	none := []*phrase{}
	for name, c := range map[string]struct {
		question string
		want     words
	}{
		"a call that is known": {
			`{"call":"0xa9059cbb` + word(bare(bob)) + word("2a") + `"}`,
			words{Call: &phrase{"transfer", []arg{{"to", "address", bob}, {"amount", "uint256", "42"}}}, Logs: none},
		},
		"a call without arguments":          {`{"call":"0x18160ddd"}`, words{Call: &phrase{"totalSupply", []arg{}}, Logs: none}},
		"a call that nobody knows":          {`{"call":"0x01020304"}`, words{Logs: none}},
		"a call whose arguments do not fit": {`{"call":"0xa9059cbb00"}`, words{Logs: none}},
		"a plain transfer":                  {`{"call":"0x"}`, words{Logs: none}},
		"the reason of a revert":            {`{"fail":"0x08c379a0` + word("20") + word("2") + "6e6f" + strings.Repeat("0", 60) + `"}`, words{Fail: &phrase{"Error", []arg{{"reason", "string", "no"}}}, Logs: none}},
		"a panic":                           {`{"fail":"0x4e487b71` + word("11") + `"}`, words{Fail: &phrase{"Panic", []arg{{"code", "uint256", "17"}}}, Logs: none}},
		"an event of a token":               {`{"logs":[{"topics":["` + transfers + `","0x` + word(bare(alice)) + `","0x` + word(bare(bob)) + `"],"data":"0x` + word("7") + `"}]}`, words{Logs: []*phrase{{"Transfer", []arg{{"from", "address", alice}, {"to", "address", bob}, {"value", "uint256", "7"}}}}}},
		"the same event of an NFT":          {`{"logs":[{"topics":["` + transfers + `","0x` + word(bare(alice)) + `","0x` + word(bare(bob)) + `","0x` + word("7") + `"],"data":"0x"}]}`, words{Logs: []*phrase{{"Transfer", []arg{{"from", "address", alice}, {"to", "address", bob}, {"value", "uint256", "7"}}}}}},
		"an anonymous event":                {`{"logs":[{"topics":[],"data":"0x"}]}`, words{Logs: []*phrase{nil}}},
	} {
		status, body, _ := ask(t, http.MethodPost, base+"/ui/decode", c.question)
		var got words
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, body)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// What cannot be decoded is refused with the reason, before it is worked on.
func TestDecodeRefuses(t *testing.T) {
	base := serve(t, deps(t, ""))
	for question, status := range map[string]int{
		`{`:                        400,
		`{"call":"0x1"}`:           400,
		`{"abi":{"not":"a list"}}`: 422,
		`{"call":"0x` + strings.Repeat("00", 300<<10) + `"}`:                                 413,
		`{"logs":[` + strings.Repeat(`{"topics":[],"data":"0x"},`, 1000) + `{"topics":[]}]}`: 413,
		`{"calls":[` + strings.Repeat(`{"call":"0x"},`, 1000) + `{"call":"0x"}]}`:            413,
		`{"calls":[{"call":"0x` + strings.Repeat("00", 300<<10) + `"}]}`:                     413,
		`{"calls":[{"fail":"0x` + strings.Repeat("00", 300<<10) + `"}]}`:                     413,
	} {
		if got, body, _ := ask(t, http.MethodPost, base+"/ui/decode", question); got != status {
			t.Errorf("%.40s: %d %.100s, want %d", question, got, body, status)
		}
	}
}

// What an ABI names is told by it, before what is known without; an entry that has no readable form spoils nothing.
func TestDecodeByABI(t *testing.T) {
	const text = `[
		{"type":"function","name":"set","inputs":[{"name":"","type":"uint8[]"},{"name":"flag","type":"bool"}]},
		{"type":"function","name":"twice","inputs":[{"name":"a","type":"bool"},{"name":"a","type":"bool"}]},
		{"type":"error","name":"Short","inputs":[{"name":"by","type":"int64"}]},
		{"type":"event","name":"Transfer","inputs":[{"name":"source","type":"address","indexed":true},{"name":"target","type":"address","indexed":true},{"name":"cents","type":"uint256"}]}]`
	contract := must.Get(abi.JSON(strings.NewReader(text)))(t)
	call := must.Get(contract.Pack("set", []uint8{5, 6}, true))(t)
	short := contract.Errors["Short"]
	fail := must.Get(short.Inputs.Pack(int64(-3)))(t)
	question := fmt.Sprintf(`{"abi":%s,"call":"%#x","fail":"%#x","logs":[{"topics":["%s","0x%s","0x%s"],"data":"0x%s"}]}`,
		text, call, append(short.ID[:4:4], fail...), contract.Events["Transfer"].ID, word(bare(alice)), word(bare(bob)), word("7"))
	_, body, _ := ask(t, http.MethodPost, serve(t, deps(t, ""))+"/ui/decode", question)
	want := `{"call":{"name":"set","args":[{"name":"arg0","type":"uint8[]","value":[5,6]},{"name":"flag","type":"bool","value":true}]},` +
		`"fail":{"name":"Short","args":[{"name":"by","type":"int64","value":"-3"}]},` +
		`"logs":[{"name":"Transfer","args":[{"name":"source","type":"address","value":"` + alice + `"},{"name":"target","type":"address","value":"` + bob + `"},{"name":"cents","type":"uint256","value":"7"}]}],"calls":[]}`
	if diff := cmp.Diff(want, strings.TrimSpace(body)); diff != "" {
		t.Error(diff)
	}
}

// The calls of a tree are told in one answer, each in its place.
func TestDecodeCalls(t *testing.T) {
	question := `{"calls":[{"call":"0x18160ddd"},{"call":"0x01020304","fail":"0x4e487b71` + word("11") + `"},{"call":"0x"}]}`
	_, body, _ := ask(t, http.MethodPost, serve(t, deps(t, ""))+"/ui/decode", question)
	want := `{"call":null,"fail":null,"logs":[],"calls":[{"call":{"name":"totalSupply","args":[]},"fail":null},` +
		`{"call":null,"fail":{"name":"Panic","args":[{"name":"code","type":"uint256","value":"17"}]}},{"call":null,"fail":null}]}`
	if diff := cmp.Diff(want, strings.TrimSpace(body)); diff != "" {
		t.Error(diff)
	}
}

// A question that would decode to far more than it has bytes costs a few times its size, and counts in the memory of all requests.
func TestDecodeBomb(t *testing.T) {
	const n = 1000
	data := word("20") + word("3e8")
	for range n {
		data += word("7d00")
	}
	data += word("3e8") + strings.Repeat("11", 32<<10)
	lists := `[{"type":"function","name":"f","inputs":[{"name":"a","type":"uint256` + strings.Repeat("[]", 30_000) + `"}]},{"type":"function","name":"g","inputs":[{"name":"a","type":"bytes[]"}]}]`
	parsed := must.Get(decode.Parse("g(bytes[])"))(t)
	question := fmt.Sprintf(`{"abi":%s,"call":"%#x%s"}`, lists, parsed.Selector[:4], data)
	d := deps(t, "")
	base := serve(t, d)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, body, _ := ask(t, http.MethodPost, base+"/ui/decode", question)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; status != http.StatusOK || taken > uint64(100*len(question)) {
		t.Errorf("%d: %d bytes took %d: %.200s", status, len(question), taken, body)
	}
	d.Memory = capacity.NewMemory(capacity.Config{Limit: 64, Requests: 8, Client: 8, Request: 8})
	if status, body, _ := ask(t, http.MethodPost, serve(t, d)+"/ui/decode", `{"call":"0x`+strings.Repeat("00", 250<<10)+`"}`); status != http.StatusOK {
		t.Errorf("within the memory: %d %s", status, body)
	}
	if status, body, _ := ask(t, http.MethodPost, serve(t, d)+"/ui/decode", `{"abi":[`+strings.Repeat(" ", 500<<10)+`]}`); status != http.StatusServiceUnavailable {
		t.Errorf("beyond the memory: %d %s", status, body)
	}
	if used := d.Memory.Used(); used != 0 {
		t.Errorf("%d bytes are held afterwards", used)
	}
}
