package mirror

import (
	"cmp"
	"context"
	"net"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
		label: "network/nodes", path: "network/nodes?limit=" + strconv.Itoa(nodesPerPage), member: "nodes", maxPages: maxNodePages,
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

// UnmarshalJSONFrom implements json.UnmarshalerFrom. A service is named by its domain, or else by its IPv4 address.
func (n *Node) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var v struct {
		Account   hedera.ID `json:"node_account_id"`
		CertHash  string    `json:"node_cert_hash"`
		Endpoints []struct {
			Name    string `json:"domain_name"`
			Address string `json:"ip_address_v4"`
			Port    int64  `json:"port"`
		} `json:"service_endpoints"`
	}
	err := json.UnmarshalDecode(d, &v)
	*n = Node{Account: v.Account, CertHash: v.CertHash}
	for _, e := range v.Endpoints {
		if host := cmp.Or(e.Name, e.Address); host != "" && e.Port >= 1 && e.Port <= 65535 {
			n.Endpoints = append(n.Endpoints, net.JoinHostPort(host, strconv.FormatInt(e.Port, 10)))
		}
	}
	return err
}
