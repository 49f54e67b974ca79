package consensus

import (
	"bytes"
	"context"
	"crypto/sha512"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
	"lockstep/internal/sleep"
)

//go:embed networks/*.txt
var networkFiles embed.FS

// The ports of the network: gRPC as it is and gRPC in TLS.
const (
	portPlain = 50211
	portTLS   = 50212
)

// NodeAddress is a consensus node and where it can be reached.
type NodeAddress struct {
	ID        hedera.ID // the node's account
	Endpoints []string  // host:port, equally good
	CertHash  []byte    // SHA-384 of the certificate in PEM form, or nil
}

// ParseNetwork reads a network's name (mainnet, testnet or previewnet, in any
// case) or a JSON object from endpoints to node accounts, such as
// {"127.0.0.1:50211":"0.0.3"}. Nodes come back in the order of their accounts.
func ParseNetwork(text string) ([]NodeAddress, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	switch {
	case text == "":
		return nil, errors.New(`it is not set; want mainnet, testnet, previewnet, or the nodes as JSON, such as {"127.0.0.1:50211":"0.0.3"}`)
	case strings.HasPrefix(text, "{"):
		return parseNetworkMap(text)
	}
	switch text {
	case "mainnet", "testnet", "previewnet":
		return builtinNetwork(text)
	default:
		return nil, fmt.Errorf("%q is neither mainnet, testnet, previewnet nor a JSON object, such as {\"127.0.0.1:50211\":\"0.0.3\"}", text)
	}
}

func parseNetworkMap(text string) ([]NodeAddress, error) {
	var entries map[string]string
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("want a JSON object of endpoints and accounts: %w", err)
	}
	byID := make(map[hedera.ID]*NodeAddress)
	for endpoint, account := range entries {
		id, err := hedera.ParseID(account)
		if err != nil {
			return nil, err
		}
		if err := checkEndpoint(endpoint); err != nil {
			return nil, err
		}
		if byID[id] == nil {
			byID[id] = &NodeAddress{ID: id}
		}
		byID[id].Endpoints = append(byID[id].Endpoints, endpoint)
	}
	if len(byID) == 0 {
		return nil, errors.New("no nodes")
	}
	nodes := make([]NodeAddress, 0, len(byID))
	for _, node := range byID {
		slices.Sort(node.Endpoints)
		nodes = append(nodes, *node)
	}
	sortNodes(nodes)
	return nodes, nil
}

func checkEndpoint(endpoint string) error {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return fmt.Errorf("endpoint %q: want host:port", endpoint)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return fmt.Errorf("endpoint %q: want host:port", endpoint)
	}
	return nil
}

func builtinNetwork(name string) ([]NodeAddress, error) {
	text, err := networkFiles.ReadFile("networks/" + name + ".txt")
	if err != nil {
		return nil, err
	}
	var nodes []NodeAddress
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) < 3 {
			return nil, fmt.Errorf("network %s: short line %q", name, line)
		}
		id, err := hedera.ParseID(fields[0])
		if err != nil {
			return nil, err
		}
		pin, err := parseCertHash(fields[1])
		if err != nil {
			return nil, err
		}
		node := NodeAddress{ID: id, CertHash: pin}
		for _, host := range fields[2:] {
			node.Endpoints = append(node.Endpoints, net.JoinHostPort(host, strconv.Itoa(portPlain)))
		}
		nodes = append(nodes, node)
	}
	sortNodes(nodes)
	return nodes, nil
}

func sortNodes(nodes []NodeAddress) {
	slices.SortFunc(nodes, func(a, b NodeAddress) int {
		return slices.Compare([]int64{a.ID.Shard, a.ID.Realm, a.ID.Num}, []int64{b.ID.Shard, b.ID.Realm, b.ID.Num})
	})
}

func parseCertHash(text string) ([]byte, error) {
	hash, err := hex.DecodeString(strings.TrimPrefix(strings.ToLower(text), "0x"))
	if err != nil || len(hash) != sha512.Size384 {
		return nil, errors.New("certificate hash: want 96 hexadecimal digits of SHA-384")
	}
	return hash, nil
}

// dialAddresses returns the endpoints to connect to and whether they speak TLS.
// With transport security on, all do: the plain port is replaced by its TLS twin.
// Without it, plaintext endpoints are preferred, and TLS ones are what remains.
func (a *NodeAddress) dialAddresses(secure bool) (addresses []string, withTLS bool) {
	var plain, encrypted []string
	for _, endpoint := range a.Endpoints {
		host, port, _ := net.SplitHostPort(endpoint) // checked when parsed
		switch {
		case port == strconv.Itoa(portTLS):
			encrypted = append(encrypted, endpoint)
		case secure && port == strconv.Itoa(portPlain):
			encrypted = append(encrypted, net.JoinHostPort(host, strconv.Itoa(portTLS)))
		case secure:
			encrypted = append(encrypted, endpoint)
		default:
			plain = append(plain, endpoint)
		}
	}
	if len(plain) > 0 {
		return plain, false
	}
	return slices.Compact(slices.Sorted(slices.Values(encrypted))), true
}

// AddressBook fetches the network's present list of nodes from somewhere outside.
type AddressBook func(ctx context.Context) ([]NodeAddress, error)

// bookTimeout is how long fetching the address book may take.
const bookTimeout = time.Minute

// bookRest is the least time between two fetches, however many nodes deny their accounts.
const bookRest = time.Minute

// named tells whether the network is one of those whose nodes are known by its name.
func (c *Config) named() bool { return !strings.HasPrefix(strings.TrimSpace(c.Network), "{") }

// Follow makes Run keep the list of nodes up to date from book: when it starts, at the interval of the
// settings, and soon after a node has denied being the account it is listed as. It does nothing
// if the settings name the nodes one by one or switch it off. Call it before Run.
func (c *Client) Follow(book AddressBook) {
	if c.refresh > 0 {
		c.book = book
	}
}

// followBook fetches the address book until ctx is done.
func (c *Client) followBook(ctx context.Context) {
	if c.book == nil {
		return
	}
	tick := time.NewTicker(c.refresh)
	defer tick.Stop()
	for {
		if err := c.Refresh(ctx, c.book); err != nil && ctx.Err() == nil {
			c.log.Warn("the list of consensus nodes stays as it is", "error", err)
		}
		if !sleep.For(ctx, c.pace.bookRest) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.outdated:
		}
	}
}

// denied notes that a node is not the account it is listed as.
func (c *Client) denied() {
	select {
	case c.outdated <- struct{}{}:
	default: // noted already
	}
}

// Refresh replaces the list of nodes by what book says now. A book that cannot be read,
// is empty, or lists a node twice or without an address changes nothing. A node that was
// pinned to a certificate stays pinned to it if the book has no certificate for it.
func (c *Client) Refresh(ctx context.Context, book AddressBook) error {
	ctx, cancel := context.WithTimeout(ctx, bookTimeout)
	defer cancel()
	addresses, err := book(ctx)
	if err != nil {
		return fmt.Errorf("address book: %w", err)
	}
	for i, a := range addresses {
		if a.ID.Num < 1 {
			return errors.New("address book: a node without an account")
		}
		for _, other := range addresses[:i] {
			if other.ID == a.ID {
				return fmt.Errorf("address book: node %s is there twice", a.ID)
			}
		}
		if known := c.nodes.find(a.ID); known != nil && a.CertHash == nil {
			addresses[i].CertHash = known.certHash
		}
	}
	sortNodes(addresses)
	before := c.nodes.all()
	if err := c.SetNodes(addresses); err != nil {
		return err
	}
	if now := c.nodes.all(); !slices.Equal(before, now) {
		c.log.Info("the list of consensus nodes has changed", "nodes", len(now))
	}
	return nil
}

// retireAfter is how long a node that left the network keeps its connections, for
// the calls and the waits for receipts that still use them.
const retireAfter = 3 * time.Minute

// roster is the set of nodes as it is now. Readers take a snapshot and never wait.
type roster struct {
	secure  bool // TLS for all
	log     *slog.Logger
	probed  atomic.Bool // Run is looking after the nodes
	current atomic.Pointer[[]*node]

	mu      sync.Mutex // serialises changes; guards all below
	retired []*node    // to be closed with the others, if their time is not over before
	closed  bool
}

// all returns the nodes, none before the first list.
func (r *roster) all() []*node {
	if nodes := r.current.Load(); nodes != nil {
		return *nodes
	}
	return nil
}

// best returns the node for a sender: the one with the highest rendezvous score
// among the healthy nodes not in tried. Where there is none, it falls back to the
// unhealthy node that is due first. It returns nil when all are tried.
//
// Every process with the same node list ranks them the same, and a node that
// comes or goes moves only the senders that were or will be its own.
func (r *roster) best(sender common.Address, tried []*node) *node {
	now := time.Now()
	key := senderKey(sender)
	var chosen, fallback *node
	var top uint64
	for _, n := range r.all() {
		if slices.Contains(tried, n) {
			continue
		}
		if !n.healthy(now) {
			if fallback == nil || n.retryAt.Load() < fallback.retryAt.Load() {
				fallback = n
			}
			continue
		}
		if score := mix(key ^ n.seed); chosen == nil || score > top {
			chosen, top = n, score
		}
	}
	if chosen == nil {
		return fallback
	}
	return chosen
}

func (r *roster) find(id hedera.ID) *node {
	for _, n := range r.all() {
		if n.id == id {
			return n
		}
	}
	return nil
}

// set replaces the nodes. One whose addresses and certificate are the same stays,
// with its connections and its health; the others are closed after a while. It returns the nodes
// that are new and those that left.
func (r *roster) set(addresses []NodeAddress) (joined, left []*node, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, ErrClosed
	}
	old := r.all()
	next := make([]*node, 0, len(addresses))
	for _, a := range addresses {
		n := newNode(a, r.secure, &r.probed, r.log)
		if i := slices.IndexFunc(old, n.sameAs); i >= 0 {
			n = old[i]
		} else {
			joined = append(joined, n)
		}
		next = append(next, n)
	}
	for _, n := range old {
		if !slices.Contains(next, n) {
			left = append(left, n)
			time.AfterFunc(retireAfter, func() { _ = n.close() }) // nobody uses it any more
		}
	}
	r.retired = append(r.retired, left...)
	r.current.Store(&next)
	return joined, left, nil
}

// sameAs tells whether two nodes are reached in the same way.
func (n *node) sameAs(other *node) bool {
	return n.id == other.id && n.secure == other.secure && slices.Equal(n.address, other.address) &&
		bytes.Equal(n.certHash, other.certHash)
}

// close closes every node for ever.
func (r *roster) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var errs []error
	for _, n := range append(slices.Clone(r.all()), r.retired...) {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}

// senderKey folds an address into 64 well-spread bits.
func senderKey(a common.Address) uint64 {
	h := mix(binary.BigEndian.Uint64(a[0:8]))
	h = mix(h ^ binary.BigEndian.Uint64(a[8:16]))
	return mix(h ^ uint64(binary.BigEndian.Uint32(a[16:20])))
}

// nodeSeed gives each node account its own place in the hash.
func nodeSeed(id hedera.ID) uint64 {
	return mix(mix(mix(uint64(id.Shard))^uint64(id.Realm)) ^ uint64(id.Num))
}

// mix is the finalizer of SplitMix64: a bijection in which every input bit reaches
// every output bit. The constants must not change, or senders change their nodes.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
