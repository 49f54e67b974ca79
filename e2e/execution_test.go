package e2e

import "testing"

// TestExecution has the Hedera SDK make and read files, create and call contracts, spend what others allowed, and ask what
// the network tells of itself.
func TestExecution(t *testing.T) {
	t.Parallel()
	input := startServices(t)
	vault := contract(t, "Vault")
	with := func(task string, payer int) map[string]any {
		in := input(task, payer)
		in["artifact"] = vault
		return in
	}

	t.Run("files", func(t *testing.T) {
		t.Parallel()
		var got map[string]any
		script(t, "contracts", with("files", 0), &got)
		same(t, got, map[string]any{
			"steps": map[string]any{
				"unsigned": "INVALID_SIGNATURE", "appended": "SUCCESS", "renamed": "SUCCESS", "chunks": "SUCCESS", "immutable": "UNAUTHORIZED",
				"undeletable": "UNAUTHORIZED", "deleted": "SUCCESS", "again": "FILE_DELETED", "readDeleted": "SUCCESS",
			},
			"first": "hello", "second": "hello world", "whole": true, "size": "10011", "memo": "long", "keys": 1.0, "gone": true, "fixed": "for ever",
		})
	})

	t.Run("calls", func(t *testing.T) {
		t.Parallel()
		var got map[string]any
		script(t, "contracts", with("calls", 1), &got)
		same(t, got, map[string]any{
			"steps": map[string]any{
				"failed": "CONTRACT_REVERT_EXECUTED", "localFailure": "CONTRACT_REVERT_EXECUTED", "poor": "INSUFFICIENT_GAS",
				"permanent": "PERMANENT_REMOVAL_REQUIRES_SYSTEM_INITIATION", "deleted": "SUCCESS", "tooLate": "CONTRACT_DELETED",
			},
			"before": "41", "after": "42", "other": "7", "returned": "42", "logs": 1.0, "gas": true, "paid": "SUCCESS", "balance": "3 ℏ", "memo": "from a file", "same": true,
			"reason": "0x08c379a0000000000000000000000000000000000000000000000000000000000000002000000000000000000000000000000000000000000000000000000000000000096e6f7420746f6461790000000000000000000000000000000000000000000000",
		})
	})

	t.Run("queries", func(t *testing.T) {
		t.Parallel()
		var got map[string]any
		script(t, "contracts", with("queries", 2), &got)
		same(t, got, map[string]any{
			"cost": true, "version": true, "nodes": []any{"0.0.3"}, "first": "SUCCESS", "second": "DUPLICATE_TRANSACTION", "children": 1.0, "created": true,
			"records": 1.0, "duplicates": 0.0,
		})
	})

	t.Run("allowances", func(t *testing.T) {
		t.Parallel()
		var got map[string]any
		script(t, "contracts", with("allowances", 3), &got)
		same(t, got, map[string]any{
			"steps": map[string]any{"approved": "SUCCESS", "spent": "SUCCESS", "tooMuch": "AMOUNT_EXCEEDS_ALLOWANCE", "byKey": "SUCCESS", "byNobody": "INVALID_SIGNATURE"},
			"keys":  3.0,
		})
	})
}
