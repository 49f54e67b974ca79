package rest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/console/page"
	"lockstep/internal/access"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/secret"
)

var errOwn = errors.New("a thing of the listener's own")

// world is a listener with one operation that counts, one that fails, and a stream.
type world struct {
	*Server
	t     *testing.T
	url   string
	stop  func()
	count int
	fails error // what GET /v1/faults answers
}

func start(t *testing.T, password secret.String, noTenants string) *world {
	t.Helper()
	w := build(t, password, noTenants)
	must.Do(t, w.Open(t.Context(), "ADDRESS", "127.0.0.1:0", false, nil))
	w.url, w.stop = "http://"+w.Addr(), must.Run(t, w.Run)
	return w
}

// build makes one that listens nowhere.
func build(t *testing.T, password secret.String, noTenants string) *world {
	t.Helper()
	w := &world{t: t}
	user := map[bool]string{true: "core"}[password != ""]
	w.Server = New(Options{
		Of: "test", Keys: access.New(ledgertest.Open(t, access.Schema), user, password), Basic: user, Streams: 4, Drain: time.Second, Log: slog.New(slog.DiscardHandler), NoTenants: noTenants,
		About: page.About{Parts: []string{page.PartManager}, Needs: "a key", Version: "test"}, Known: []Known{{errOwn, 418, "OWN"}},
		Ready:   func(context.Context) (any, bool) { return "cold", false },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") }),
	})
	Register(w.Server, w.Operation(access.RoleSend, http.MethodPost, "/v1/things", "things", "Count"), func(context.Context, *struct{ Body struct{ Amount int } }) (*Out[int], error) {
		w.count++
		return Answered(w.count, nil)
	})
	Register(w.Server, w.Operation(access.RoleAdmin, http.MethodGet, "/v1/faults", "faults", "Fail"), func(context.Context, *struct{}) (*Out[int], error) { return Answered(0, w.fails) })
	Stream(w.Server, w.Operation(access.RoleRead, http.MethodGet, "/v1/stream", "stream", "Tell"), "event text.", func(context.Context) (int64, error) { return 7, nil },
		func(ctx context.Context, _ *Place, after int64) (string, int64, error) {
			if after < 9 {
				return Event(after+1, "thing", after), after + 1, nil
			}
			<-ctx.Done()
			return "", after, nil
		})
	return w
}

func (w *world) key(tenant string, role access.Role) string {
	w.t.Helper()
	_, token := must.Get2(w.Keys.Create(w.t.Context(), tenant, role, ""))(w.t)
	return "Bearer " + token.Reveal()
}

// reply is one whose body is read until the test ends.
type reply struct {
	StatusCode int
	Header     http.Header
	Body       io.Reader
}

// open makes a request, whose headers are pairs.
func (w *world) open(method, path, body string, headers ...string) reply {
	w.t.Helper()
	request := must.Get(http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body)))(w.t)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	response := must.Get(http.DefaultClient.Do(request))(w.t)
	w.t.Cleanup(func() { _ = response.Body.Close() })
	return reply{response.StatusCode, response.Header, response.Body}
}

func (w *world) ask(method, path, body string, headers ...string) (status int, text string) {
	w.t.Helper()
	response := w.open(method, path, body, headers...)
	return response.StatusCode, string(must.Get(io.ReadAll(response.Body))(w.t))
}

// Without keys only this machine's own programs are served: not a page of another site, and not a name that was bound to loopback.
func TestWithoutKeysBrowsersAreRefused(t *testing.T) {
	w := start(t, "", "")
	for name, headers := range map[string][]string{
		"another site":          {"Origin", "https://evil.example"},
		"a rebound name":        {"Host", "evil.example:7550"},
		"a cross-site fetch":    {"Sec-Fetch-Site", "cross-site"},
		"a sandboxed page":      {"Origin", "null"},
		"a page of this host":   {"Origin", "http://127.0.0.1:3000"},
		"its own name, rebound": {"Origin", "http://evil.example:7550", "Host", "evil.example:7550"},
		"through a proxy":       {"X-Forwarded-For", "203.0.113.9"},
	} {
		if status, text := w.ask("POST", "/v1/things", `{"Amount":1}`, headers...); status != 403 || w.count != 0 {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if status, text := w.ask("GET", "/ui/about", "", headers...); status != 403 {
			t.Errorf("%s, of the page: %d %s", name, status, text)
		}
	}
	for _, headers := range [][]string{nil, {"Host", "localhost:7550"}, {"Host", "[::1]:7550"}, {"Sec-Fetch-Site", "none"}, {"X-Forwarded-For", "127.0.0.1"}, {"Origin", w.url, "Sec-Fetch-Site", "same-origin"}} {
		if status, text := w.ask("POST", "/v1/things", `{"Amount":1}`, headers...); status != 200 {
			t.Errorf("%v: %d %s", headers, status, text)
		}
	}
	for _, path := range []string{"/ui/", "/ui/app.js"} {
		if status, _ := w.ask("GET", path, "", "Host", "evil.example:7550"); status != 403 {
			t.Errorf("%s by a rebound name: %d", path, status)
		}
	}
	if _, text := w.ask("GET", "/ui/about", ""); !strings.Contains(text, `"role":"admin"`) {
		t.Errorf("about: %s", text)
	}
}

// The page is there for whoever may reach the listener. What it shows needs a key, and what the process is it tells a
// stranger only as far as the page needs it to ask for one. Who may not use the listener is a stranger.
func TestPage(t *testing.T) {
	for _, refused := range []string{"", "no tenants here"} {
		w := start(t, "sesame", refused)
		admin, acme, away := w.key("", access.RoleAdmin), w.key("acme", access.RoleRead), ""
		_, token := must.Get2(w.Keys.Create(t.Context(), "", access.RoleRead, "", "203.0.113.0/24"))(t)
		away = "Bearer " + token.Reveal()
		for _, path := range []string{"/ui/", "/ui/app.js", "/ui/manager.js"} {
			if r := w.open("GET", path, ""); r.StatusCode != 200 || !strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
			}
		}
		if r := w.open("GET", "/ui/else.js", ""); r.StatusCode != 401 || r.Header.Get("WWW-Authenticate") != `Bearer, Basic realm="core"` || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("what the page has not: %d %v", r.StatusCode, r.Header)
		}
		type about struct {
			Parts                        []string
			Needs, Version, Role, Tenant string
		}
		tenant := about{[]string{"manager"}, "a key", "test", "read", "acme"}
		stranger := about{[]string{"manager"}, "a key", "", "", ""}
		if refused != "" {
			tenant = stranger
		}
		for name, c := range map[string]struct {
			header string
			want   about
		}{
			"a stranger":       {"", stranger},
			"with a bad key":   {"Bearer lsk_x", stranger},
			"from elsewhere":   {away, stranger},
			"a password":       {basic("sesame"), about{[]string{"manager"}, "a key", "test", "send", ""}},
			"an administrator": {admin, about{[]string{"manager"}, "a key", "test", "admin", ""}},
			"a tenant":         {acme, tenant},
		} {
			var got about
			if _, text := w.ask("GET", "/ui/about", "", "Authorization", c.header); json.Unmarshal([]byte(text), &got) != nil || !slices.Equal(got.Parts, c.want.Parts) || got.Role != c.want.Role || got.Version != c.want.Version || got.Tenant != c.want.Tenant || got.Needs != c.want.Needs {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
		}
		if status, _ := w.ask("GET", "/ui/about", "", "Origin", "https://evil.example", "Authorization", admin); status != 403 {
			t.Errorf("another origin: %d", status)
		}
		if status, text := w.ask("GET", "/v1/stream?cursor=x", "", "Authorization", acme); status == 403 != (refused != "") {
			t.Errorf("a tenant: %d %s", status, text)
		}
	}
}

func basic(password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte("core:"+password))
}

// Each error has a status, a form and a code; what is nobody's business is not told.
func TestProblems(t *testing.T) {
	w := start(t, "", "")
	admin, tenants, reader := w.key("", access.RoleAdmin), w.key("acme", access.RoleAdmin), w.key("", access.RoleRead)
	for name, c := range map[string]struct {
		fails              error
		method, path, body string
		key                string
		status             int
		code               string
	}{
		"its own":          {errors.Join(errors.New("more"), errOwn), "GET", "/v1/faults", "", admin, 418, "OWN"},
		"too late":         {context.DeadlineExceeded, "GET", "/v1/faults", "", admin, 503, "UNAVAILABLE"},
		"the database":     {io.ErrUnexpectedEOF, "GET", "/v1/faults", "", admin, 503, "UNAVAILABLE"},
		"unheard of":       {errors.New("hush"), "GET", "/v1/faults", "", admin, 500, "INTERNAL"},
		"busy":             {ErrBusy, "GET", "/v1/faults", "", admin, 429, "BUSY"},
		"a low role":       {nil, "POST", "/v1/things", `{"Amount":1}`, reader, 403, "FORBIDDEN"},
		"a tenant's admin": {nil, "GET", "/v1/faults", "", tenants, 403, "FORBIDDEN"},
		"nobody":           {nil, "GET", "/v1/faults", "", "", 401, "UNAUTHORIZED"},
		"a bad form":       {nil, "POST", "/v1/things", `{"Amount":1.5}`, admin, 422, "INVALID"},
		"no JSON":          {nil, "POST", "/v1/things", `{`, admin, 400, "INVALID"},
		"no path":          {nil, "GET", "/v1/else", "", admin, 404, "NOT_FOUND"},
		"no cursor":        {nil, "GET", "/v1/stream?cursor=-1", "", reader, 422, "INVALID"},
	} {
		w.fails = c.fails
		r := w.open(c.method, c.path, c.body, "Authorization", c.key)
		var p Problem
		text := must.Get(io.ReadAll(r.Body))(t)
		if err := json.Unmarshal(text, &p); err != nil || r.StatusCode != c.status || p.Status != c.status || p.Code != c.code || r.Header.Get("Content-Type") != "application/problem+json" || strings.Contains(string(text), "hush") {
			t.Errorf("%s: %d %s", name, r.StatusCode, text)
		}
		if again := r.Header.Get("Retry-After"); (again != "") != (c.status == 429) {
			t.Errorf("%s: ask again after %q", name, again)
		}
	}
	for path, want := range map[string]int{"/health/liveness": 200, "/health/readiness": 503, "/metrics": 401} {
		if status, text := w.ask("GET", path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if _, text := w.ask("GET", "/metrics", "", "Authorization", reader); text != "up 1\n" {
		t.Errorf("metrics: %s", text)
	}
}

// A stream goes on where its reader says, a key that opens streams without end is refused some day and leaves room for others, and all end with the process.
func TestStreams(t *testing.T) {
	w := start(t, "", "")
	w.key("", access.RoleAdmin)
	one, other := w.key("", access.RoleRead), w.key("", access.RoleRead)
	read := func(want string, r reply) {
		t.Helper()
		text := make([]byte, len(want))
		if _, err := io.ReadFull(r.Body, text); err != nil || string(text) != want || r.StatusCode != http.StatusOK {
			t.Errorf("%d %q, want %q (%v)", r.StatusCode, text, want, err)
		}
	}
	read("id: 7\n\nid: 8\nevent: thing\ndata: 7\n\nid: 9\nevent: thing\ndata: 8\n\n", w.open("GET", "/v1/stream", "", "Authorization", one))
	read("id: 8\n\nid: 9\nevent: thing\ndata: 8\n\n", w.open("GET", "/v1/stream?cursor=3", "", "Authorization", one, "Last-Event-ID", "8"))
	if r := w.open("GET", "/v1/stream", "", "Authorization", one); r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a third stream: %d", r.StatusCode)
	}
	last := w.open("GET", "/v1/stream?cursor=9", "", "Authorization", other)
	read("id: 9\n\n", last)
	w.stop()
	must.Get(io.ReadAll(last.Body))(t)
}

// Without a key the port is on loopback.
func TestListensWideOnlyWithKeys(t *testing.T) {
	for password, want := range map[secret.String]error{"": errOwn, "sesame": nil} {
		w := build(t, password, "")
		if err := w.Open(t.Context(), "ADDRESS", "0.0.0.0:0", false, errOwn); !errors.Is(err, want) {
			t.Errorf("password %q: %v", password.Reveal(), err)
		}
		w.Close()
	}
	w := start(t, "sesame", "")
	if status, text := w.ask("POST", "/v1/things", `{"Amount":1}`, "Authorization", basic("sesame")); status != 200 {
		t.Errorf("with the password: %d %s", status, text)
	}
	if status, _ := w.ask("GET", "/v1/faults", "", "Authorization", basic("sesame")); status != 403 {
		t.Errorf("an internal caller is an administrator: %d", status)
	}
}
