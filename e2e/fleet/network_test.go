package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

const chainID = 298

// network is a Hedera network of four nodes, a Redis, and what the relays of a
// test have in common.
type network struct {
	t        *testing.T
	redis    *redistest.Server
	store    redis.UniversalClient // to look into Redis
	settings []string              // of every relay, after the ones all tests share
	sentinel *redistest.Sentinel   // if the relays find Redis through one
	group    *group                // of servers that Redis consists of; nil: it is redis alone
	mirrors  int                   // how many mirror nodes each relay has; 0 = 1
	program  string                // of the relays, if it is not the usual one
	defaults bool                  // relays have the default settings for all that takes time

	Mirror   string            `json:"mirror"`
	Nodes    map[string]string `json:"nodes"` // address to account
	Accounts []account         `json:"accounts"`
	Control  string            `json:"control"` // where its calls can be spoiled

	taken  int // accounts given out as senders
	relays []*relay
}

// group is several servers of Redis. Each relay has a line of its own to each.
type group struct {
	servers []*redistest.Server
	url     string
	relays  int // that have lines so far
}

// account is one funded account of the network.
type account struct {
	ID         string `json:"id"`
	Address    string `json:"address"`
	PrivateKey string `json:"privateKey"`
	KeyType    string `json:"keyType"`
}

// newNetwork runs the network and Redis. Four nodes with jitter between them
// change the order of what is given to different ones; the mirror node lags, so
// that nobody can get by with asking it. The first account is the relays'.
func newNetwork(t *testing.T, settings ...string) *network {
	t.Helper()
	n := &network{t: t, redis: redistest.Start(t), settings: settings, taken: 1}
	n.store = n.redis.Client()
	p := start(t, "devnet", nil,
		"devnet", "--json", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0", "--control", "127.0.0.1:0",
		"--nodes", "4", "--consensus-latency", "100ms", "--jitter", "100ms", "--mirror-lag", "200ms",
	)
	p.ReadReady(n)
	if len(n.Nodes) != 4 {
		t.Fatalf("%d nodes, want 4", len(n.Nodes))
	}
	return n
}

// decision is one entry of the log of what consensus saw.
type decision struct {
	Sender common.Address `json:"sender"`
	Nonce  uint64         `json:"nonce"`
	Hash   common.Hash    `json:"hash"`
	Node   string         `json:"node"`
	Status string         `json:"status"`
	Time   string         `json:"time"` // seconds and nanoseconds, separated by a point
}

// at is when consensus saw it.
func (d decision) at(t *testing.T) time.Time {
	t.Helper()
	whole, rest, _ := strings.Cut(d.Time, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	nanos, bad := strconv.ParseInt(rest, 10, 64)
	if err != nil || bad != nil || len(rest) != 9 {
		t.Fatalf("the time of %v is %q", d, d.Time)
	}
	return time.Unix(seconds, nanos)
}

func (d decision) String() string {
	return fmt.Sprintf("%s nonce %d %s at %s, %s: %s", d.Sender.Hex()[:8], d.Nonce, d.Hash.Hex()[:10], d.Node, d.Time, d.Status)
}

// Statuses in the log.
const (
	success    = "SUCCESS"
	wrongNonce = "WRONG_NONCE"
)

// decisions reads the whole log, in the order of consensus.
func (n *network) decisions() []decision {
	n.t.Helper()
	var all []decision
	for since := int64(0); ; {
		var page struct {
			Entries []decision `json:"entries"`
			Next    int64      `json:"next"`
		}
		getJSON(n.t, fmt.Sprintf("%s/devnet/consensus?since=%d", n.Mirror, since), &page)
		if len(page.Entries) == 0 {
			return all
		}
		all = append(all, page.Entries...)
		since = page.Next
	}
}

// executed waits until consensus has seen all the transactions.
func (n *network) executed(txs ...*transaction) {
	n.t.Helper()
	until(n.t, normal, "all transactions are executed", func() bool {
		log := n.decisions()
		return !slices.ContainsFunc(txs, func(tx *transaction) bool {
			return !slices.ContainsFunc(log, func(d decision) bool { return d.Hash == tx.hash && d.Status == success })
		})
	})
}

// nonce gives the sender's next nonce as the mirror node shows it.
func (n *network) nonce(s *sender) uint64 {
	n.t.Helper()
	var account struct {
		Nonce uint64 `json:"ethereum_nonce"`
	}
	getJSON(n.t, n.Mirror+"/api/v1/accounts/"+s.address.Hex(), &account)
	return account.Nonce
}

// waiting gives how many transactions wait for their turn at the relays that live, besides the owner.
func (n *network) waiting() (count int) {
	n.t.Helper()
	for _, r := range n.relays {
		if r.process.Alive() {
			count += int(r.metric("rpc_relay_lock_waiting_txns"))
		}
	}
	return count
}

// owned tells whether the sender's lock belongs to somebody, by Redis.
func (n *network) owned(s *sender) bool {
	n.t.Helper()
	count := must.Get(n.store.Exists(n.t.Context(), "lock:"+tag(s)).Result())(n.t)
	return count == 1
}

func tag(s *sender) string { return "{" + strings.ToLower(s.address.Hex()) + "}" }

// pushes waits until Redis can tell each relay of its turns: one that does not hear looks for them.
func (n *network) pushes() {
	n.t.Helper()
	until(n.t, normal, "the relays hear of their turns", func() bool {
		channels, err := n.store.PubSubChannels(n.t.Context(), "lock:grants:*").Result()
		return err == nil && len(channels) == len(n.relays)
	})
}

// checkTidy fails unless, soon, nothing is left of what was sent: no gauge of a
// living relay counts a transaction still (L26), no lock is owned and no place taken
// (L9, L13, L21), and whatever else the locks keep in Redis expires by itself (L22).
func (n *network) checkTidy() {
	n.t.Helper()
	gauges := []string{"rpc_relay_lock_active_count", "rpc_relay_lock_waiting_txns", "rpc_relay_tx_in_progress"}
	for _, r := range n.relays {
		if !r.process.Alive() {
			continue
		}
		for _, g := range gauges {
			until(n.t, normal, r.name+": "+g+" is 0", func() bool { return r.metric(g) == 0 })
		}
	}
	var left string
	defer func() {
		if left != "" {
			n.t.Logf("in Redis: %s", left)
		}
	}()
	// What a relay owned that was taken for dead, if only because the machine stood still, is left until its time is over.
	until(n.t, 3*normal, "nothing is left in Redis", func() bool { left = n.leftover(); return left == "" })
}

// leftover names a key of the locks that should not be there.
func (n *network) leftover() string {
	n.t.Helper()
	ctx, client := n.t.Context(), n.store
	keys := must.Get(client.Keys(ctx, "lock:*").Result())(n.t)
	for _, key := range keys {
		if strings.HasPrefix(key, "lock:{") || strings.HasPrefix(key, "lock:queue:") {
			return key
		}
		ttl := must.Get(client.TTL(ctx, key).Result())(n.t)
		if ttl == -1 {
			return key + ", which never expires"
		}
	}
	return ""
}

// counts are commands that Redis has executed, those in scripts included, by name.
type counts map[string]int

// commands gives what Redis has executed so far.
func (n *network) commands() counts {
	n.t.Helper()
	info, err := n.store.Info(n.t.Context(), "commandstats").Result()
	if err != nil {
		n.t.Fatal(err)
	}
	all := counts{}
	for line := range strings.Lines(info) {
		name, rest, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		if all[name], err = strconv.Atoi(calls); err != nil {
			n.t.Fatalf("commandstats: %q", line)
		}
	}
	return all
}

// since gives what each of so many transactions cost after an earlier count, in all and by
// command.
func (c counts) since(earlier counts, transactions int) (each float64, by string) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if per := float64(c[name]-earlier[name]) / float64(transactions); per > 0 {
			each += per
			by += fmt.Sprintf(" %s %.2f", name, per)
		}
	}
	return each, by
}

func getJSON(t *testing.T, url string, into any) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	doJSON(t, request, into)
}

func doJSON(t *testing.T, request *http.Request, into any) {
	t.Helper()
	response := must.Get(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", request.Method, request.URL, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatalf("%s %s: %v", request.Method, request.URL, err)
	}
}
