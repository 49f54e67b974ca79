package consensus

import (
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

	"lockstep/internal/hedera"
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
