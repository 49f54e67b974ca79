package main

import (
	"regexp"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// A second network has its page at a free port; a port that somebody asked for is not exchanged for another.
func TestPageOfASecondNetwork(t *testing.T) {
	var taken string
	for range 2 {
		listener := must.Get(listenUI(t.Context(), devUI))(t)
		defer func() { _ = listener.Close() }()
		if taken == listener.Addr().String() {
			t.Errorf("both are at %s", taken)
		}
		taken = listener.Addr().String()
	}
	if _, err := listenUI(t.Context(), taken); err == nil || !strings.Contains(err.Error(), "--ui") {
		t.Errorf("a taken port: %v", err)
	}
	if listener, err := listenUI(t.Context(), ""); listener != nil || err != nil {
		t.Errorf("no page: %v %v", listener, err)
	}
}

// All that "lockstep dev" opens is on loopback, unless a flag says otherwise.
func TestDevListensOnLoopback(t *testing.T) {
	_, _, help := lockstep(t, nil, "dev", "-h")
	addresses := regexp.MustCompile(`\(default "([^"]*:\d+)"\)`).FindAllStringSubmatch(help, -1)
	for _, a := range addresses {
		if !strings.HasPrefix(a[1], "127.0.0.1:") {
			t.Errorf("%s is open to others", a[1])
		}
	}
	if len(addresses) < 5 {
		t.Errorf("%d addresses in:\n%s", len(addresses), help)
	}
}
