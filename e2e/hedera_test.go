package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
)

var entityID = regexp.MustCompile(`^0\.0\.[1-9]\d{3,}$`)

// TestHederaSDK lets the Hedera SDK and the relay look at the same chain. Each
// part has a payer of its own, because the parts run side by side.
func TestHederaSDK(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	recipient := n.Accounts[len(n.Accounts)-1]
	input := func(task string, payer account) map[string]any {
		return map[string]any{
			"task": task, "rpc": n.RPC, "consensus": n.Consensus, "chainId": chainID, "privateKey": payer.PrivateKey,
			"operator":  map[string]any{"id": payer.ID, "privateKey": payer.PrivateKey},
			"recipient": recipient.ID, "recipientAddress": recipient.Address, "artifact": contract(t, "Journal"),
		}
	}

	t.Run("transfer", func(t *testing.T) {
		t.Parallel()
		payer := n.Accounts[0]
		var got struct{ Status, Received, Recorded, Memo, Fee, Payer string }
		script(t, "hedera", input("transfer", payer), &got)
		expect(t, got.Status, "SUCCESS")
		expect(t, got.Recorded, "250000000")
		expect(t, got.Memo, "a transfer")
		expect(t, got.Payer, payer.ID)
		if received := decimal(t, got.Received).Int64(); received < 250_000_000 {
			t.Errorf("the recipient received %d tinybars", received)
		}
		if decimal(t, got.Fee).Sign() < 0 {
			t.Errorf("fee %s", got.Fee)
		}
	})

	t.Run("create account", func(t *testing.T) {
		t.Parallel()
		var got struct{ Status, Account, Memo, Initial, Address, InfoAddress, OwnStatus, SeenByRelay string }
		script(t, "hedera", input("create", n.Accounts[1]), &got)
		expect(t, got.Status, "SUCCESS")
		expect(t, got.OwnStatus, "SUCCESS")
		expect(t, got.Memo, "made by a test")
		expect(t, got.Initial, "2000000000")
		expect(t, got.InfoAddress, got.Address)
		if !entityID.MatchString(got.Account) {
			t.Errorf("account id %q", got.Account)
		}
		// 20 hbar less the transfer of 1 and its fee.
		seen := decimal(t, got.SeenByRelay)
		if most := decimal(t, "19000000000000000000"); seen.Sign() <= 0 || seen.Cmp(most) > 0 {
			t.Errorf("the relay sees %s weibar, want at most %s", seen, most)
		}
	})

	t.Run("hollow account", func(t *testing.T) {
		t.Parallel()
		var got struct {
			Status     string
			Recorded   []string
			Children   int
			Funded     string
			SentStatus int
			Completed  bool
		}
		script(t, "hedera", input("hollow", n.Accounts[2]), &got)
		expect(t, got.Status, "SUCCESS")
		expect(t, got.Funded, "10000000000000000000")
		expect(t, got.SentStatus, 1)
		expect(t, got.Completed, true)
		if !strings.Contains(strings.Join(got.Recorded, " "), "1000000000") {
			t.Errorf("the record's transfers %v lack the 10 hbar", got.Recorded)
		}
		if got.Children < 1 {
			t.Error("the record of the account's creation is missing")
		}
	})

	t.Run("Ethereum transaction", func(t *testing.T) {
		t.Parallel()
		var got struct {
			Status, Contract, Hash, RecordHash, RecordGas, RelayGas string
			RelayStatus                                             int
			RelayCode                                               bool
		}
		script(t, "hedera", input("ethereum", n.Accounts[3]), &got)
		expect(t, got.Status, "SUCCESS")
		expect(t, got.RecordHash, got.Hash)
		expect(t, got.RecordGas, got.RelayGas)
		expect(t, got.RelayStatus, 1)
		expect(t, got.RelayCode, true)
		if !entityID.MatchString(got.Contract) {
			t.Errorf("contract id %q", got.Contract)
		}
		if hash, err := hexutil.Decode(got.Hash); err != nil || len(hash) != 32 {
			t.Errorf("hash %q", got.Hash)
		}
	})

	t.Run("wrong nonce", func(t *testing.T) {
		t.Parallel()
		var got struct{ Status string }
		script(t, "hedera", input("wrongNonce", n.Accounts[4]), &got)
		expect(t, got.Status, "WRONG_NONCE")
	})
}
