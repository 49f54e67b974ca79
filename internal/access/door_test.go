package access

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/secret"
)

func asked(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7547/locks", nil)
	r.RemoteAddr = "127.0.0.1:50000"
	for i := 0; i < len(headers); i += 2 {
		switch headers[i] {
		case "Host":
			r.Host = headers[i+1]
		case "From":
			r.RemoteAddr = headers[i+1]
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

// An open door is for what looks local in every respect; every header by which a proxy may tell of somebody else is judged.
func TestOpenDoor(t *testing.T) {
	for name, test := range map[string]struct {
		headers []string
		want    error
	}{
		"curl":                     {nil, nil},
		"by name":                  {[]string{"Host", "localhost:7547"}, nil},
		"the listener's own page":  {[]string{"Origin", "http://127.0.0.1:7547", "Sec-Fetch-Site", "same-origin"}, nil},
		"a program for a local":    {[]string{"X-Forwarded-For", "127.0.0.1", "X-Forwarded-Proto", "http"}, nil},
		"from another machine":     {[]string{"From", "192.0.2.7:1"}, ErrUnauthorized},
		"another host":             {[]string{"Host", "relay.example"}, ErrForbidden},
		"a page of another site":   {[]string{"Origin", "https://evil.example"}, ErrForbidden},
		"a browser says so":        {[]string{"Sec-Fetch-Site", "cross-site"}, ErrForbidden},
		"Forwarded":                {[]string{"Forwarded", "for=127.0.0.1"}, ErrForbidden},
		"Via":                      {[]string{"Via", "1.1 proxy"}, ErrForbidden},
		"X-Forwarded-For":          {[]string{"X-Forwarded-For", "127.0.0.1, 192.0.2.7"}, ErrForbidden},
		"X-Real-IP":                {[]string{"X-Real-IP", "192.0.2.7"}, ErrForbidden},
		"CF-Connecting-IP":         {[]string{"CF-Connecting-IP", "192.0.2.7"}, ErrForbidden},
		"True-Client-IP":           {[]string{"True-Client-IP", "192.0.2.7"}, ErrForbidden},
		"X-Original-Forwarded-For": {[]string{"X-Original-Forwarded-For", "192.0.2.7"}, ErrForbidden},
		"X-Forwarded-Host":         {[]string{"X-Forwarded-Host", "relay.example"}, ErrForbidden},
		"X-Forwarded-Proto":        {[]string{"X-Forwarded-Proto", "https"}, ErrForbidden},
		"X-Forwarded-Server":       {[]string{"X-Forwarded-Server", "proxy"}, ErrForbidden},
		"X-Forwarded-Prefix":       {[]string{"X-Forwarded-Prefix", "/x"}, ErrForbidden},
	} {
		if err := NewDoor("").Admits(asked(test.headers...)); test.want == nil && err != nil || !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// Behind a proxy that sends no header a stranger looks like this machine. With a token that is of no use.
func TestLockedDoor(t *testing.T) {
	door := Locked()
	var told strings.Builder
	door.Tell(&told, "the console", "http://127.0.0.1:7547/ui/")
	_, token, ok := strings.Cut(strings.TrimSpace(told.String()), "http://127.0.0.1:7547/ui/#token=")
	if !ok || len(token) < 40 {
		t.Fatalf("told %q", told.String())
	}
	if err := door.Admits(asked()); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("without the token: %v", err)
	}
	if err := door.Shows(asked("Host", "relay.example")); err != nil {
		t.Errorf("the files of the page: %v", err)
	}
	for _, wrong := range []string{"Bearer ", "Bearer " + token + "x", "Bearer lst_", token, "Basic " + token} {
		if err := door.Admits(asked("Authorization", wrong)); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if err := door.Admits(asked("Authorization", "Bearer "+token, "Host", "relay.example", "Via", "1.1 proxy")); err != nil {
		t.Errorf("with the token: %v", err)
	}
	if other := Locked(); other.Admits(asked("Authorization", "Bearer "+token)) == nil {
		t.Error("every start has the same token")
	}
	var nothing strings.Builder
	NewDoor("").Tell(&nothing, "x", "y")
	if nothing.Len() != 0 || NewDoor(secret.String("sesame")).Open() {
		t.Error("an open door tells a token, or one with a token is open")
	}
}

// Before the first key the token is an administrator's; with a key it is nobody's.
func TestKeysBehindALockedDoor(t *testing.T) {
	k := New(open(t), "", "")
	k.Door = NewDoor("lst_sesame")
	token := asked("Authorization", "Bearer lst_sesame")
	if _, err := k.Who(asked()); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("without the token: %v", err)
	}
	if who, err := k.Who(token); err != nil || who.Role != RoleAdmin || who.Tenant != "" {
		t.Errorf("with the token: %+v, %v", who, err)
	}
	if err := k.Public(asked("Host", "relay.example")); err != nil {
		t.Errorf("the page's files: %v", err)
	}
	if _, _, err := k.Create(t.Context(), "", RoleAdmin, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Who(token); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("with the token beside a key: %v", err)
	}
}

// However much tenants take, the next one finds a place; what is given back is there again, and nothing of a tenant stays.
func TestPlacesAreShared(t *testing.T) {
	p := NewPlaces(12)
	var back []func()
	takeAll := func(tenant string) (n int) {
		for give := p.Take(tenant); give != nil; give = p.Take(tenant) {
			back = append(back, give)
			n++
		}
		return n
	}
	got := []int{takeAll("a"), takeAll("b"), takeAll("c"), takeAll("d")}
	if want := []int{6, 3, 2, 1}; !slices.Equal(got, want) {
		t.Fatalf("tenants got %v, want %v", got, want)
	}
	for _, give := range back {
		give()
	}
	if p.free != 12 || len(p.held) != 0 {
		t.Fatalf("%d free, %v held", p.free, p.held)
	}
	if one := NewPlaces(1); one.Take("a") == nil || one.Take("a") != nil {
		t.Fatal("one place is not one place")
	}
}
