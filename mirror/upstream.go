package mirror

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
)

// upstream is one of the mirror nodes.
type upstream struct {
	name string // host and port, for logs and metrics: a path may hold a key
	rest *door
	web3 *door         // may be the same
	head atomic.Uint64 // the highest block that any of its answers told of
	latencies
}

// door is an address of a mirror node.
type door struct {
	base string // …/api/v1/, as the next
	breaker
}

// service is one of the two interfaces of a mirror node.
type service int

const (
	rest service = iota
	web3         // simulates calls and replays transactions
)

func (s service) String() string { return [...]string{"rest", "web3"}[s] }

func (u *upstream) door(s service) *door {
	if s == web3 {
		return u.web3
	}
	return u.rest
}

// saw notes a block that the mirror node knows.
func (u *upstream) saw(number uint64) { raise(&u.head, number) }

// raise makes a number at least as high as another.
func raise(n *atomic.Uint64, to uint64) {
	for {
		now := n.Load()
		if to <= now || n.CompareAndSwap(now, to) {
			return
		}
	}
}

// mostUpstreams bounds the list: each is asked for its newest block every second.
const mostUpstreams = 16

// upstreams reads the addresses. Either there is one web3 address for each mirror
// node, in the same order, or one for all, or none.
func (c *Config) upstreams() ([]*upstream, error) {
	rests, err := baseURLs(c.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("MIRROR_NODE_URL: %w", err)
	}
	if len(rests) == 0 {
		return nil, errors.New("MIRROR_NODE_URL is mandatory")
	}
	web3s, err := baseURLs(c.Web3URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("MIRROR_NODE_URL_WEB3: %w", err)
	}
	if n := len(web3s); n > 1 && n != len(rests) {
		return nil, fmt.Errorf("MIRROR_NODE_URL_WEB3: want one URL, or one for each of the %d of MIRROR_NODE_URL", len(rests))
	}
	doors := make(map[string]*door)
	open := func(u *url.URL) *door {
		base := u.String() + apiPrefix
		if doors[base] == nil {
			doors[base] = &door{base: base, breaker: breaker{limit: c.BreakerFailures, pause: c.BreakerPause.Duration()}}
		}
		return doors[base]
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
	if len(all) > mostUpstreams {
		return nil, fmt.Errorf("more than %d URLs", mostUpstreams)
	}
	return all, nil
}
