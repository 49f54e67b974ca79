package nodes

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet"
	"lockstep/devnet/node"
)

// A node is trusted by the hash of its certificate in the address book: with the right
// one transactions go out, with a wrong one not a byte of them does, and without one the
// connection is encrypted and nothing more.
func TestPinnedNodes(t *testing.T) {
	var offered atomic.Int64
	n := startNetwork(t, devnet.Config{TLS: true, Nodes: 2, Fault: func(c node.Call) node.Fault {
		if c.Submission != nil {
			offered.Add(1)
		}
		return node.Fault{}
	}})
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	pins := n.CertHashes()
	if len(pins) != 2 || len(pins["0.0.3"]) != 96 || pins["0.0.3"] == pins["0.0.4"] {
		t.Fatalf("pins %v", pins)
	}
	swapped := map[string]string{"0.0.3": pins["0.0.4"], "0.0.4": pins["0.0.3"]}
	overTLS := []string{"HEDERA_NETWORK=" + text(n.TLSNodes()), "CLIENT_TRANSPORT_SECURITY=true", "SDK_REQUEST_TIMEOUT=5s"}
	for i, test := range []struct {
		name     string
		settings []string
		ok       bool
	}{
		{"right pins", append(overTLS, "HEDERA_NODE_CERT_HASHES="+text(pins)), true},
		{"right pins in capitals", append(overTLS, "HEDERA_NODE_CERT_HASHES="+strings.ToUpper(text(pins))), true},
		{"no pins", overTLS, true},
		{"each other's pins", append(overTLS, "HEDERA_NODE_CERT_HASHES="+text(swapped)), false},
		{"TLS to a plain port", []string{"CLIENT_TRANSPORT_SECURITY=true", "SDK_REQUEST_TIMEOUT=5s"}, false},
		{"plain to a TLS port", []string{"HEDERA_NETWORK=" + text(n.TLSNodes()), "SDK_REQUEST_TIMEOUT=5s"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := startRelay(t, n, test.settings...)
			before := offered.Load()
			_, err := r.send(t.Context(), newWallet(t, n, i).sign(&common.Address{9}, nil))
			arrived := offered.Load() - before
			if test.ok && (err != nil || arrived != 1) {
				t.Errorf("%v; a node was offered it %d times", err, arrived)
			}
			if !test.ok && (err == nil || arrived != 0 || !strings.Contains(err.Error(), "Nothing was submitted")) {
				t.Errorf("%v; a node was offered it %d times", err, arrived)
			}
		})
	}
}
