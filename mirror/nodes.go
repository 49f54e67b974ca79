package mirror

import (
	"context"
	"net"
	"strconv"

	"lockstep/internal/hedera"
)

// Node is a consensus node in the network's address book.
type Node struct {
	Account   hedera.ID
	Endpoints []string // host:port of its gRPC services
	CertHash  string   // hexadecimal SHA-384 of its certificate in PEM form; empty: none
}

// Nodes returns the network's address book, whole or not at all.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	nodes := list[Node]{
		label: "network/nodes", path: "network/nodes?limit=" + strconv.Itoa(nodesPerPage), member: "nodes", maxPages: maxNodePages, read: readNode,
	}
	var found []Node
	for node, err := range nodes.items(ctx, c) {
		if err != nil {
			return nil, err
		}
		found = append(found, *node)
	}
	return found, nil
}

// The mirror node gives a maximum of 25 nodes a page; networks have some dozens.
const (
	nodesPerPage = 25
	maxNodePages = 40
)

func readNode(r *reader, n *Node) {
	r.object(func(key []byte) {
		switch string(key) {
		case "node_account_id":
			n.Account = r.id()
		case "node_cert_hash":
			n.CertHash = r.str()
		case "service_endpoints":
			r.array(func() {
				if endpoint := readEndpoint(r); endpoint != "" {
					n.Endpoints = append(n.Endpoints, endpoint)
				}
			})
		default:
			r.skip()
		}
	})
}

// readEndpoint reads where a service is: by name, or else by IPv4 address.
func readEndpoint(r *reader) string {
	var name, address string
	var port int64
	r.object(func(key []byte) {
		switch string(key) {
		case "domain_name":
			name = r.str()
		case "ip_address_v4":
			address = r.str()
		case "port":
			port = r.int64()
		default:
			r.skip()
		}
	})
	if name == "" {
		name = address
	}
	if name == "" || port < 1 || port > 65535 {
		return ""
	}
	return net.JoinHostPort(name, strconv.FormatInt(port, 10))
}
