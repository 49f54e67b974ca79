package e2e

import "testing"

// dialect is a response profile of the relay.
type dialect struct{ profile string }

var dialects = []dialect{{"ethereum"}, {"hiero"}}

// checkAlive makes one good call.
func checkAlive(t *testing.T, n *network) {
	t.Helper()
	if got := call(t, n.RPC, "eth_chainId", `[]`); string(got.Result) != `"0x12a"` {
		t.Fatalf("afterwards eth_chainId gave %s, %v", got.Result, got.Error)
	}
}
