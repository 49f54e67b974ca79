package redisx_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
	"lockstep/internal/redisx"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		url  string
		want redisx.Target
	}{
		{"redis://localhost", redisx.Target{Kind: redisx.Single, Network: "tcp", Addrs: []string{"localhost:6379"}}},
		{"redis://:p%40ss@h:7000/3", redisx.Target{Kind: redisx.Single, Network: "tcp", Addrs: []string{"h:7000"}, Password: "p@ss", DB: 3}},
		{"rediss://u:p@h:1", redisx.Target{Kind: redisx.Single, TLS: true, Network: "tcp", Addrs: []string{"h:1"}, Username: "u", Password: "p"}},
		{"redis://[::1]:7000", redisx.Target{Kind: redisx.Single, Network: "tcp", Addrs: []string{"[::1]:7000"}}},
		{"redis://[::1]", redisx.Target{Kind: redisx.Single, Network: "tcp", Addrs: []string{"[::1]:6379"}}},
		{"redis://h?db=4", redisx.Target{Kind: redisx.Single, Network: "tcp", Addrs: []string{"h:6379"}, DB: 4}},
		{"redis+sentinel://:p@a,b:1/main/2?sentinel_password=q", redisx.Target{
			Kind: redisx.Sentinel, Network: "tcp", Addrs: []string{"a:26379", "b:1"}, Master: "main", DB: 2, Password: "p", SentinelPassword: "q",
		}},
		{"redis+cluster://a:1,b,[::1]:3", redisx.Target{Kind: redisx.Cluster, Network: "tcp", Addrs: []string{"a:1", "b:6379", "[::1]:3"}}},
		{"unix:///run/redis.sock?db=1", redisx.Target{Kind: redisx.Single, Network: "unix", Addrs: []string{"/run/redis.sock"}, DB: 1}},
	} {
		got, err := redisx.Parse(tc.url)
		if err != nil {
			t.Errorf("%s: %v", tc.url, err)
		} else if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.url, diff)
		}
	}
}

func TestErrorsHideThePassword(t *testing.T) {
	for _, url := range []string{
		"", "hunter2", "http://u:hunter2@h", "redis://u:hunter2@", "redis://u:hunter2@h:port", "redis://u:hunter2@h:0",
		"redis://hunter2@h", "redis://:hunter2%zz@h", "redis://u:hunter2@h/x", "redis://u:hunter2@h:1:2", "redis://u:hunter2@a,,b",
		"redis+sentinel://u:hunter2@h", "redis+cluster://u:hunter2@h/1", "redis://u:hunter2@h?%zz=hunter2", "unix://u:hunter2@/x@y",
		"redis://h:99999/hunter2", "redis://u:hun/ter2@h",
	} {
		got, err := redisx.Parse(url)
		if err == nil && !strings.HasPrefix(url, "unix://u:") {
			t.Errorf("%s: accepted as %v", url, got)
			continue
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the password: %v", url, err)
		}
	}
}

func TestTargetHidesThePassword(t *testing.T) {
	target := must.Get(redisx.Parse("redis+sentinel://u:hunter2@h/m?sentinel_password=hunter2"))(t)
	if s := fmt.Sprintf("%v %+v %#v %s %v", target, target, target, target, &target); strings.Contains(s, "hunter2") {
		t.Error(s)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"redis://localhost", "rediss://u:p@h:1/2", "redis+sentinel://a,b/m/1", "redis+cluster://a:1,[::1]:2", "unix:///s?db=1",
		"redis://:SECRETSECRET@h:bad", "redis://@:@,/?", "redis://[", "redis://[]:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := redisx.Parse(s)
		if err != nil {
			return
		}
		if len(target.Addrs) == 0 || target.DB < 0 || (target.Kind == redisx.Sentinel) != (target.Master != "") {
			t.Fatalf("%q: half a target: %#v", s, target)
		}
		if target.Network == "tcp" {
			for _, a := range target.Addrs {
				if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
					t.Fatalf("%q: address %q: %v", s, a, err)
				}
			}
		}
		// Making the client must not panic, and connects nowhere.
		must.Do(t, redisx.New(target, redisx.Options{}).Close())
	})
}
