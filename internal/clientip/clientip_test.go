package clientip

import (
	"net/http"
	"strings"
	"testing"
)

// TestOf: who names the client is believed if it is a trusted proxy, and what the
// client itself put in front of that is not.
func TestOf(t *testing.T) {
	const proxy, stranger = "192.0.2.1:1234", "203.0.113.9:1234"
	for _, tt := range []struct {
		name    string
		remote  string
		header  http.Header
		trusted []string
		want    string
	}{
		{"socket", proxy, nil, []string{"192.0.2.0/24"}, "192.0.2.1"},
		{"socket, IPv6", "[2001:db8::1]:1234", nil, []string{"2001:db8::/32"}, "2001:db8::1"},
		{"a proxy's client", proxy, http.Header{"X-Forwarded-For": {"10.0.0.1"}}, []string{"192.0.2.0/24"}, "10.0.0.1"},
		{"two proxies", proxy, http.Header{"X-Forwarded-For": {"10.0.0.1, 192.0.2.2"}}, []string{"192.0.2.0/24"}, "10.0.0.1"},
		{"the client forges one more", proxy, http.Header{"X-Forwarded-For": {"1.1.1.1, 10.0.0.1, 192.0.2.2"}}, []string{"192.0.2.0/24"}, "10.0.0.1"},
		{"in a field of its own", proxy, http.Header{"X-Forwarded-For": {"1.1.1.1", "10.0.0.1"}}, []string{"192.0.2.0/24"}, "10.0.0.1"},
		{"all are proxies", proxy, http.Header{"X-Forwarded-For": {"192.0.2.3, 192.0.2.2"}}, []string{"192.0.2.0/24"}, "192.0.2.3"},
		{"one proxy by its address", proxy, http.Header{"X-Forwarded-For": {"10.0.0.1"}}, []string{"192.0.2.1"}, "10.0.0.1"},
		{"a stranger", stranger, http.Header{"X-Forwarded-For": {"10.0.0.1"}}, []string{"192.0.2.0/24"}, "203.0.113.9"},
		{"nobody is trusted", proxy, http.Header{"X-Forwarded-For": {"10.0.0.1"}}, nil, "192.0.2.1"},
		{"with port", proxy, http.Header{"X-Forwarded-For": {"10.0.0.1:99"}}, []string{"192.0.2.0/24"}, "10.0.0.1"},
		{"with brackets", proxy, http.Header{"X-Forwarded-For": {"[2001:DB8::2]:99"}}, []string{"192.0.2.0/24"}, "2001:db8::2"},
		{"mapped", "[::ffff:192.0.2.1]:1234", http.Header{"X-Forwarded-For": {"::ffff:10.0.0.1"}}, []string{"192.0.2.0/24"}, "10.0.0.1"},
		{"no address", proxy, http.Header{"X-Forwarded-For": {"unknown"}}, []string{"192.0.2.0/24"}, "192.0.2.1"},
		{"no address behind a proxy", proxy, http.Header{"X-Forwarded-For": {"unknown, 192.0.2.2"}}, []string{"192.0.2.0/24"}, "192.0.2.2"},
		{"too long", proxy, http.Header{"X-Forwarded-For": {"10.0.0.1," + strings.Repeat("x", 1000)}}, []string{"192.0.2.0/24"}, "192.0.2.1"},
		{"RFC 7239", proxy, http.Header{"Forwarded": {`for=10.0.0.9, proto=http; For="[2001:db8::3]:80"`}}, []string{"192.0.2.0/24"}, "2001:db8::3"},
		{"RFC 7239, hidden", proxy, http.Header{"Forwarded": {`for=_hidden`}}, []string{"192.0.2.0/24"}, "192.0.2.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trusted, err := Read(tt.trusted)
			if err != nil {
				t.Fatal(err)
			}
			if got := Of(tt.header, tt.remote, trusted); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if _, err := Read([]string{"10.0.0.0/8", "anybody"}); err == nil {
		t.Error("a proxy without an address was accepted")
	}
}
