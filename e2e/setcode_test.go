package e2e

import (
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
)

// delegateReport is what a client says after letting a contract's code run as its account's.
type delegateReport struct {
	Contract   common.Address `json:"contract"`
	Status     int            `json:"status"`
	Type       int            `json:"type"`
	Code       string         `json:"code"`
	Authorized common.Address `json:"authorized"` // by the list of the transaction
	Authority  common.Address `json:"authority"`  // who signed that
	Spent      int            `json:"spent"`      // nonces
	Supply     string         `json:"supply"`     // told by the account itself
}

// Clients send transactions with authorizations (EIP-7702), where the network executes them and
// the relay lets them through.
func TestSetCode(t *testing.T) {
	t.Parallel()
	n := startDev(t, []string{"TX_TYPE_4_ENABLED=true"}, "--set-code")
	token := contract(t, "Token")
	for i, client := range []string{"ethers", "viem"} {
		t.Run(client, func(t *testing.T) {
			var got delegateReport
			sender := n.Accounts[1+i]
			script(t, client, map[string]any{
				"task": "delegate", "rpc": n.RPC, "chainId": chainID, "privateKey": sender.PrivateKey, "artifact": token,
			}, &got)
			want := delegateReport{
				Contract: got.Contract, Status: 1, Type: 4, Code: "0xef0100" + strings.ToLower(got.Contract.Hex()[2:]),
				Authorized: got.Contract, Authority: sender.address(), Spent: 2, Supply: "0",
			}
			if diff := cmp.Diff(want, got); diff != "" || got.Contract == (common.Address{}) {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
