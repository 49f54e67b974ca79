package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

// relay is one `lockstep serve`, with lines of its own to everything it needs.
type relay struct {
	net     *network
	name    string
	process *harness.Process
	client  *http.Client
	http    string // URLs
	ws      string
	admin   string

	redis, mirror *link      // the first of each
	stores        links      // to all servers of Redis
	mirrors       links      // to all mirror nodes
	clock         *wallClock // of the day; nil if it cannot be set
	nodes         links
	nodeOf        map[string]*link // by the node's account
}

// startRelay runs a relay and waits until Redis decides its order, if that is on.
func (n *network) startRelay(name string, settings ...string) *relay {
	n.t.Helper()
	r := n.launch(name, settings...)
	if r.orders() {
		r.sharesOrder()
	}
	return r
}

// startRelays runs several relays with equal settings.
func (n *network) startRelays(count int) []*relay {
	n.t.Helper()
	var all []*relay
	for i := range count {
		all = append(all, n.launch(string(rune('A'+i))))
	}
	for _, r := range all {
		if r.orders() {
			r.sharesOrder()
		}
	}
	return all
}

// launch runs a relay until it listens.
func (n *network) launch(name string, settings ...string) *relay {
	n.t.Helper()
	r := &relay{
		net: n, name: name, nodeOf: map[string]*link{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}},
	}
	url := n.linesToRedis(r)
	var mirrors []string
	for range max(n.mirrors, 1) {
		l := newLink(n.t, strings.TrimPrefix(n.Mirror, "http://"))
		r.mirrors, mirrors = append(r.mirrors, l), append(mirrors, "http://"+l.addr())
	}
	r.redis, r.mirror = r.stores[0], r.mirrors[0]
	n.t.Cleanup(r.client.CloseIdleConnections)
	nodes := map[string]string{}
	for _, addr := range slices.Sorted(maps.Keys(n.Nodes)) {
		l := newLink(n.t, addr)
		nodes[l.addr()] = n.Nodes[addr]
		r.nodeOf[n.Nodes[addr]] = l
		r.nodes = append(r.nodes, l)
	}
	roster := must.Get(json.Marshal(nodes))(n.t)
	var env []string
	if !n.defaults {
		env = append(harness.Patient(), calm()...)
	}
	env = append(env,
		"CHAIN_ID=298", "HEDERA_NETWORK="+string(roster), "MIRROR_NODE_URL="+strings.Join(mirrors, ","),
		"OPERATOR_ID_MAIN="+n.Accounts[0].ID, "OPERATOR_KEY_MAIN="+n.Accounts[0].PrivateKey, "OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"SERVER_HOST=127.0.0.1", "SERVER_PORT=0", "RPC_WS_ENABLED=true", "WEB_SOCKET_PORT=0", "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_LOOPBACK_TOKEN=false",
		"WS_CONNECTION_LIMIT=1000", "WS_CONNECTION_LIMIT_PER_IP=1000", "PRETTY_LOGS_ENABLED=false",
		"REDIS_ENABLED=true", "REDIS_URL="+url, "ENABLE_NONCE_ORDERING=true",
	)
	env = append(append(env, n.settings...), settings...)
	if level := os.Getenv(logLevel); level != "" {
		env = append(env, "LOG_LEVEL="+level)
	}
	if n.program != "" {
		r.clock = newWallClock(n.t)
		env = append(env, dayShift+"="+r.clock.file)
	}
	r.process = startOther(n.t, n.program, "relay "+name, env, "serve")
	http, ws, admin := r.process.Addresses()
	r.http, r.ws, r.admin = "http://"+http, "ws://"+ws, "http://"+admin
	n.relays = append(n.relays, r)
	return r
}

// linesToRedis opens the relay's lines to all servers of Redis, and returns the URL by which it finds them.
func (n *network) linesToRedis(r *relay) (url string) {
	n.t.Helper()
	if n.group == nil {
		r.stores = links{newLink(n.t, n.redis.Addr())}
		return "redis://" + r.stores[0].addr()
	}
	// A relay sees each server at the server's own port and at an address that only this relay has. By this address
	// the servers name each other to it, or the relay would go around the lines.
	n.group.relays++
	host := fmt.Sprint("127.0.0.", 1+n.group.relays)
	if len(host) != len(serversHost) {
		n.t.Fatal("there are no more addresses for relays")
	}
	for _, server := range n.group.servers {
		l := must.Get(newLinkAt(n.t, fmt.Sprint(host, ":", server.Port()), server.Addr()))(n.t)
		l.add("address", "readdress", "downstream", fmt.Sprintf(`"To":%q`, host))
		r.stores = append(r.stores, l)
	}
	return strings.ReplaceAll(n.group.url, serversHost, host)
}

// sharesOrder waits until Redis decides the order.
func (r *relay) sharesOrder() {
	t := r.net.t
	t.Helper()
	until(t, harness.StartLimit, "Redis decides the order of relay "+r.name, func() bool { return r.metric("lockstep_lock_redis_up") == 1 })
}

// metric sums a metric over its labels.
func (r *relay) metric(name string) float64 {
	t := r.net.t
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, r.http+"/metrics", nil))(t)
	response := must.Get(r.client.Do(request))(t)
	defer response.Body.Close()
	sum, found := 0.0, false
	scan := bufio.NewScanner(response.Body)
	for scan.Scan() {
		series, text, _ := strings.Cut(scan.Text(), " ")
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		value, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("metric %q: %v", scan.Text(), err)
		}
		sum, found = sum+value, true
	}
	if !found {
		t.Fatalf("relay %s has no metric %s", r.name, name)
	}
	return sum
}

// orders tells whether ordering is on.
func (r *relay) orders() bool {
	r.net.t.Helper()
	var on struct{ Enabled bool }
	getJSON(r.net.t, r.admin+"/ordering", &on)
	return on.Enabled
}

// setOrdering switches ordering at run time.
func (r *relay) setOrdering(on bool) {
	t := r.net.t
	t.Helper()
	body := strings.NewReader(fmt.Sprintf(`{"enabled":%t}`, on))
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPut, r.admin+"/ordering", body))(t)
	var now struct{ Enabled bool }
	doJSON(t, request, &now)
	if now.Enabled != on {
		t.Fatalf("relay %s: ordering is %t after it was set to %t", r.name, now.Enabled, on)
	}
}
