package fetch

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"

	"lockstep/internal/outage"
)

// upstream is one of the mirror nodes.
type upstream struct {
	name string // host and port, for logs and metrics: a path may hold a key
	rest *address
	web3 *address      // may be the same
	head atomic.Uint64 // the highest block that any of its answers named
	latencies
}

// address is where one of the two interfaces of a mirror node is.
type address struct {
	base string // …/api/v1/, as the next
	breaker
	slots  *slots // of the host, which both interfaces may share
	outage *outage.Log
}

// Service is one of the two interfaces of a mirror node.
type Service int

// The interfaces.
const (
	// REST tells the present and the past.
	REST Service = iota
	// Web3 simulates calls and replays transactions.
	Web3
)

func (s Service) String() string { return [...]string{"rest", "web3"}[s] }

func (u *upstream) address(s Service) *address {
	if s == Web3 {
		return u.web3
	}
	return u.rest
}

// knows notes that the mirror node has a block.
func (u *upstream) knows(number uint64) { raise(&u.head, number) }

// raise makes a number at least as high as another.
func raise(n *atomic.Uint64, to uint64) {
	for {
		now := n.Load()
		if to <= now || n.CompareAndSwap(now, to) {
			return
		}
	}
}

// maxUpstreams bounds the list: each is asked for its newest block every second.
const maxUpstreams = 16

// upstreams reads the addresses. There is one web3 address for each mirror node, in the same order, or one for
// all, or none.
func (c *Config) upstreams() ([]*upstream, error) {
	rests, err := baseURLs(c.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("MIRROR_NODE_URL: %w", err)
	}
	if len(rests) == 0 {
		return nil, errors.New("MIRROR_NODE_URL is not set; it says where the mirror node is, such as https://testnet.mirrornode.hedera.com")
	}
	web3s, err := baseURLs(c.Web3URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("MIRROR_NODE_URL_WEB3: %w", err)
	}
	if n := len(web3s); n > 1 && n != len(rests) {
		return nil, fmt.Errorf("MIRROR_NODE_URL_WEB3: want one URL, or one for each of the %d of MIRROR_NODE_URL", len(rests))
	}
	addresses, hosts := make(map[string]*address), make(map[string]*slots)
	open := func(u *url.URL) *address {
		base := u.String() + APIPrefix
		if hosts[u.Host] == nil {
			hosts[u.Host] = newSlots(c.MaxSockets)
		}
		if addresses[base] == nil {
			addresses[base] = &address{base: base, breaker: breaker{limit: c.BreakerFailures, pause: c.BreakerPause.Duration()}, slots: hosts[u.Host]}
		}
		return addresses[base]
	}
	names := make(map[string]int)
	all := make([]*upstream, len(rests))
	for i, u := range rests {
		up := &upstream{name: u.Host, rest: open(u), web3: open(u)}
		if names[u.Host]++; names[u.Host] > 1 {
			up.name = fmt.Sprintf("%s#%d", u.Host, names[u.Host])
		}
		if len(web3s) > 0 {
			up.web3 = open(web3s[min(i, len(web3s)-1)])
		}
		all[i] = up
	}
	return all, nil
}

// logOutages logs the loss of an address, and its return.
func logOutages(all []*upstream, log *slog.Logger) {
	add := func(a *address, name, consequence string, several bool) {
		if a.outage != nil {
			return // several mirror nodes share it
		}
		a.outage = &outage.Log{Logger: log, Upstream: "mirror", Name: name, Level: slog.LevelError, Consequence: consequence}
		if several {
			a.outage.Level, a.outage.Consequence = slog.LevelWarn, "other mirror nodes are asked in its place"
		}
	}
	for _, u := range all {
		add(u.rest, u.name, "reads fail, and so do transactions that need them", len(all) > 1)
	}
	for _, u := range all {
		add(u.web3, u.name+" (web3)", "calls and estimates fail", len(all) > 1 && u.web3 != all[0].web3)
	}
}

func baseURLs(text string) (all []*url.URL, err error) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		u, err := baseURL(item)
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	if len(all) > maxUpstreams {
		return nil, fmt.Errorf("more than %d URLs", maxUpstreams)
	}
	return all, nil
}
