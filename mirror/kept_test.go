package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

// A keeping is some relays and where they keep what cannot change.
type keeping struct {
	relays []*Client
	redis  redis.UniversalClient // what they share; nil if nothing that works
}

const keptEntries, keptBytes = 8, 20_000

// bounded has room for few contract results.
func bounded(c *Config) { c.CacheEntries, c.CacheBytes = keptEntries, 4*keptBytes }

// nothing keeps nothing in the process.
func nothing(c *Config) { c.CacheEntries = 0 }

// Wherever records are kept, the contract is the same: what was kept is had as it was, or
// not at all; never what belongs to something else, or to another chain, or is damaged;
// and a process keeps no more than it may. Nothing but that is asked for.
func TestKept(t *testing.T) {
	open := func(t *testing.T, url string) redis.UniversalClient {
		client := must.Get(redisx.Open(url, redisx.Options{Timeout: patience}))(t)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	for name, start := range map[string]func(*testing.T, *node) keeping{
		"here": func(t *testing.T, n *node) keeping {
			return keeping{relays: []*Client{connect(t, n.URL, bounded)}}
		},
		"redis": func(t *testing.T, n *node) keeping {
			url := redistest.Start(t).URL()
			return keeping{[]*Client{sharing(t, url, n.URL, nothing), sharing(t, url, n.URL, nothing)}, open(t, url)}
		},
		"cluster": func(t *testing.T, n *node) keeping {
			url := redistest.StartCluster(t).URL()
			return keeping{[]*Client{sharing(t, url, n.URL, nothing), sharing(t, url, n.URL, nothing)}, open(t, url)}
		},
		"here and redis": func(t *testing.T, n *node) keeping {
			url := redistest.Start(t).URL()
			return keeping{[]*Client{sharing(t, url, n.URL, bounded), sharing(t, url, n.URL, bounded)}, open(t, url)}
		},
		"here, as redis is away": func(t *testing.T, n *node) keeping {
			server := redistest.Start(t)
			server.Kill()
			return keeping{relays: []*Client{sharing(t, server.URL(), n.URL, bounded)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			k := start(t, n)
			runs := 0
			rapid.Check(t, func(rt *rapid.T) {
				runs++
				n.requests()
				keptContract(t, rt, runs, n, k)
			})
		})
	}
}

// keptRecord is the one record that a key has on a chain.
func keptRecord(chain, key int) *ContractResult {
	number, index := uint64(0), uint64(key)
	return &ContractResult{
		Hash: common.BigToHash(big.NewInt(int64(key))), BlockHash: common.Hash{byte(chain), 1}, BlockNumber: &number, Index: &index,
		Input: bytes.Repeat([]byte{byte(chain), byte(key)}, key*key*7), // the longest is too long for the process
	}
}

func keptContract(t *testing.T, rt *rapid.T, run int, n *node, k keeping) {
	const keys, chains = 20, 3
	type place struct{ chain, key int }
	put, now := map[place]bool{}, 0
	turn := func(chain int) {
		now = chain
		n.set(earliestPath, fmt.Sprintf(`{"blocks":[{"number":0,"hash":"%s","timestamp":{"from":"1.0","to":"1.9"}}],"links":{"next":null}}`, chainHash(run, chain)))
		for _, relay := range k.relays {
			relay.Forget()
		}
	}
	get := func(relay *Client, key int) bool {
		want := keptRecord(now, key)
		got, err := relay.ContractResult(t.Context(), want.Hash)
		switch {
		case errors.Is(err, ErrNotFound): // the mirror node knows nothing: it was not kept
			return false
		case err != nil:
			rt.Fatalf("%d: %v", key, err)
		case !put[place{now, key}]:
			rt.Fatalf("%d of chain %d was not kept: %v", key, now, got)
		}
		if diff := sameRecord(want, got); diff != "" {
			rt.Fatalf("%d of chain %d (-want +got)\n%s", key, now, diff)
		}
		return true
	}
	keep := func(relay *Client, key int) { // what is kept was looked for before, by which a relay learns its chain
		get(relay, key)
		record := keptRecord(now, key)
		relay.keepResult(record.Hash, record)
		put[place{now, key}] = true
	}
	someKey, someRelay := rapid.IntRange(1, keys), rapid.SampledFrom(k.relays)
	actions := map[string]func(*rapid.T){
		"keep": func(rt *rapid.T) { keep(someRelay.Draw(rt, "relay"), someKey.Draw(rt, "key")) },
		"get":  func(rt *rapid.T) { get(someRelay.Draw(rt, "relay"), someKey.Draw(rt, "key")) },
		"turn": func(rt *rapid.T) { turn(rapid.IntRange(0, chains-1).Draw(rt, "chain")) },
		"": func(rt *rapid.T) {
			for _, relay := range k.relays {
				checkBounds(rt, relay.results)
			}
		},
	}
	if k.redis != nil {
		actions["spoil"] = func(rt *rapid.T) {
			record := keptRecord(now, someKey.Draw(rt, "key"))
			key := "lockstep:cache:" + chainHash(run, now)[2:18] + ":" + kindResult + ":" + record.Hash.Hex()
			raw := must.Get(encodeRecord(record))(t)
			spoilt := spoil(raw, rapid.IntRange(0, 3).Draw(rt, "how"))
			until(t, "a spoilt record", func() bool { // a cluster that had no time may be down for a moment
				return k.redis.Set(t.Context(), key, spoilt, 0).Err() == nil
			})
		}
	}
	turn(0)
	rt.Repeat(actions)

	// What fits is kept, and all relays that share a store have it.
	const small = 1
	for _, relay := range k.relays {
		until(t, "a record", func() bool {
			keep(k.relays[0], small)
			return get(relay, small)
		})
	}
}

func chainHash(run, chain int) string { return fmt.Sprintf("0x%08x%08x%048x", run, chain, 1) }

// spoil makes a record one that is not to be read: cut, empty, damaged, or of a version
// to come.
func spoil(raw []byte, how int) []byte {
	switch how {
	case 0:
		return raw[:len(raw)/2]
	case 1:
		return nil
	case 2:
		raw[len(raw)/2] ^= 1
		return raw
	}
	raw[0] = recordVersion + 1
	return withChecksum(raw[:len(raw)-checksumBytes])
}

func checkBounds[K comparable, V any](rt *rapid.T, c *cache[K, V]) {
	if c == nil {
		return
	}
	var sum int64
	for _, item := range c.lru.Values() {
		sum += item.bytes
	}
	if c.size() > keptEntries || c.bytes > keptBytes || c.bytes != sum {
		rt.Fatalf("%d records of %d bytes, counted as %d", c.size(), sum, c.bytes)
	}
}
