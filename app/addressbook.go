package app

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"

	"lockstep/consensus"
	"lockstep/mirror"
)

// AddressBook reads the network's list of consensus nodes from the mirror node.
func AddressBook(m *mirror.Client) consensus.AddressBook {
	return func(ctx context.Context) ([]consensus.NodeAddress, error) {
		nodes, err := m.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		var addresses []consensus.NodeAddress
		for _, node := range nodes {
			endpoints := grpcEndpoints(node.Endpoints)
			if len(endpoints) == 0 {
				continue // on its way in or out
			}
			hash, err := certHash(node.CertHash)
			if err != nil {
				return nil, fmt.Errorf("node %s: %w", node.Account, err)
			}
			addresses = append(addresses, consensus.NodeAddress{ID: node.Account, Endpoints: endpoints, CertHash: hash})
		}
		return addresses, nil
	}
}

// grpcEndpoints leaves out what is not on the network's ports for gRPC, such as proxies
// for browsers, unless that leaves nothing: a private network may have ports of its own.
func grpcEndpoints(all []string) []string {
	usual := slices.DeleteFunc(slices.Clone(all), func(endpoint string) bool {
		_, port, err := net.SplitHostPort(endpoint)
		return err != nil || port != "50211" && port != "50212"
	})
	if len(usual) == 0 {
		return all
	}
	return usual
}

// certHash reads the SHA-384 of a certificate. The address book itself holds its
// hexadecimal text, and a mirror node shows either that text or the text's own bytes.
func certHash(text string) ([]byte, error) {
	hash, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		return nil, fmt.Errorf("certificate hash: %w", err)
	}
	if inner, err := hex.DecodeString(string(hash)); err == nil {
		hash = inner
	}
	switch len(hash) {
	case 0:
		return nil, nil
	case 48:
		return hash, nil
	default:
		return nil, fmt.Errorf("certificate hash of %d bytes", len(hash))
	}
}
