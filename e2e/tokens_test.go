package e2e

import "testing"

// TestTokensInTheEVM uses tokens as contracts and wallets do, through the relay, and holds
// against it what the network's own clients and the mirror node say.
func TestTokensInTheEVM(t *testing.T) {
	t.Parallel()
	input := startServices(t)
	with := func(t *testing.T, task string, payer int, contractName string) map[string]any {
		t.Helper()
		in := input(task, payer)
		in["other"] = input(task, payer+5)["evmKey"]
		if contractName != "" {
			in["artifact"] = contract(t, contractName)
		}
		return in
	}

	t.Run("ERC-20", func(t *testing.T) {
		t.Parallel()
		var got map[string]any
		script(t, "tokens", with(t, "facade", 0, ""), &got)
		same(t, got, map[string]any{
			"described": "Facade", "symbol": "FCD", "decimals": 3.0, "supply": "10005", "before": false, "after": true,
			"unassociated": "CALL_EXCEPTION", "associated": 1.0, "owner": "9171", "held": "834", "allowance": "600", "hapi": "9171",
			"events": []any{"Transfer 1234", "Approval 1000", "Transfer 400"}, "fromSender": true, "approvalLogs": 1.0,
			"synthetic": []any{"Transfer 5"}, "syntheticReceipt": 1.0, "code": "0xef01000000000000000000000000000000000000000167",
			"minted": "10005", "tooMuch": "CALL_EXCEPTION",
		})
	})

	t.Run("ERC-721", func(t *testing.T) {
		t.Parallel()
		var got map[string]any
		script(t, "tokens", with(t, "collection", 1, ""), &got)
		same(t, got, map[string]any{
			"uri": "ipfs://a", "approved": true, "owner": true, "notAllowed": "CALL_EXCEPTION", "all": true, "held": "2", "serial": "1",
			"cleared": "0x0000000000000000000000000000000000000000",
		})
	})

	t.Run("a contract", func(t *testing.T) {
		t.Parallel()
		var got map[string]any
		script(t, "tokens", with(t, "user", 2, "TokenUser"), &got)
		same(t, got, map[string]any{
			"codes": map[string]any{
				"unpaid": 9.0, "created": 22.0, "unassociated": 184.0, "associatedForOther": 326.0, "sent": 22.0, "caught": -1.0,
				"wiped": 22.0, "frozen": 22.0, "sentFrozen": 165.0, "createdNFT": 22.0,
			},
			"reverted": "CALL_EXCEPTION", "pulledTooMuch": "CALL_EXCEPTION", "results": []any{"SUCCESS", "REVERTED_SUCCESS"},
			"child": []any{"TOKENMINT", "SUCCESS", 1.0}, "held": "9", "supply": "1049", "name": "Made by a contract",
			"treasury": "1040", "serial": "1", "codeSize": "23", "byDelegate": false, "byStatic": false,
		})
	})

	t.Run("a constructor", func(t *testing.T) {
		t.Parallel()
		var got map[string]any
		script(t, "tokens", with(t, "maker", 3, "TokenMaker"), &got)
		same(t, got, map[string]any{"code": 22.0, "held": "77"})
	})
}
