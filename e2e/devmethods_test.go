package e2e

import "testing"

// TestDevelopmentMethods changes accounts and makes blocks as tools for development do.
func TestDevelopmentMethods(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	for _, prefix := range []string{"hardhat_", "anvil_"} {
		t.Run(prefix, func(t *testing.T) {
			var got map[string]any
			script(t, "devmethods", map[string]any{
				"task": "change", "rpc": n.RPC, "prefix": prefix, "privateKey": n.Accounts[0].PrivateKey,
			}, &got)
			same(t, got, map[string]any{
				"balance": "10000000000000000000", "nonce": 7.0, "status": 1.0, "spent": true, "mined": 4.0, "confirmed": 1.0, "refused": "refused",
				"value": "0x000000000000000000000000000000000000000000000000000000000000002a",
				"other": "0x0000000000000000000000000000000000000000000000000000000000000001",
				"slot":  "0x000000000000000000000000000000000000000000000000000000000000002a",
			})
		})
	}
}

// TestGoingBack: after evm_revert nothing knows of what came after the snapshot.
func TestGoingBack(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	var got map[string]any
	script(t, "devmethods", map[string]any{
		"task": "back", "rpc": n.RPC, "ws": n.WS, "mirror": n.Mirror, "consensus": n.Consensus, "privateKey": n.Accounts[1].PrivateKey,
		"operator": map[string]any{"id": n.Accounts[2].ID, "privateKey": n.Accounts[2].PrivateKey},
	}, &got)
	same(t, got, map[string]any{
		"reverted": true, "again": false, "seen": true, "before": true, "head": 0.0, "nonce": []any{1.0, 1.0},
		"receipts": []any{nil, nil, nil}, "block": nil, "byHash": nil, "balance": "1000000000000000000", "token": 404.0,
		"next": []any{1.0, 1.0, true}, "sameNumber": true, "heads": []any{1.0, 2.0}, "filter": 2.0,
	})
}

// TestNodeWithKeys uses accounts whose keys the chain has, impersonation, the clock and mining.
func TestNodeWithKeys(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	var got map[string]any
	script(t, "devmethods", map[string]any{"task": "node", "rpc": n.RPC}, &got)
	same(t, got, map[string]any{
		"message": true, "typed": true, "status": []any{1.0, 1.0, 1.0}, "reason": "execution reverted: no", "poor": true,
		"dust":         "Value can't be non-zero and less than 10_000_000_000 wei which is 1 tinybar",
		"impersonated": []any{1.0, true}, "stranger": true, "day": true, "apart": 220.0, "past": true, "pending": nil, "mined": 1.0,
		"fresh": []any{0.0, 0.0}, "client": "anvil",
	})
}
