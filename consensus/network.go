package consensus

import (
	"context"
	"crypto/sha512"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

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
