package near_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/near"
)

// seen is what near-api-js reports of a chain. A refusal is the name of its error.
type seen struct {
	Created   string   `json:"created"`
	Taken     string   `json:"taken"`
	Foreign   string   `json:"foreign"`
	Transfer  string   `json:"transfer"`
	Received  string   `json:"received"`
	Poor      string   `json:"poor"`
	Nobody    string   `json:"nobody"`
	Count     []int    `json:"count"`
	Failing   string   `json:"failing"`
	Method    string   `json:"method"`
	Session   int      `json:"session"`
	Limits    []string `json:"limits"`
	Keys      int      `json:"keys"`
	Gone      string   `json:"gone"`
	Relayed   string   `json:"relayed"`
	Replayed  string   `json:"replayed"`
	Below     string   `json:"below"`
	Again     bool     `json:"again"`
	Unknown   string   `json:"unknown"`
	Deleted   string   `json:"deleted"`
	Block     string   `json:"block"`
	GasPrice  string   `json:"gasPrice"`
	NetworkID string   `json:"network"`
}

// TestNode lets near-api-js, which knows nothing of us, judge the model: it creates
// accounts, sends, reads and is refused as on a node of nearcore's.
func TestNode(t *testing.T) {
	t.Parallel()
	var ready struct {
		NEAR struct {
			RPC      string
			Accounts []struct{ ID, SecretKey string }
		}
	}
	harness.Command{
		Name: "dev --near", Shown: 64 << 10,
		Args: []string{"dev", "--json", "--near", "--near-address", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0"},
	}.Start(t).ReadReady(&ready)
	accounts := map[string]string{}
	for _, a := range ready.NEAR.Accounts {
		accounts[a.ID] = a.SecretKey
	}
	seed := bytes.Repeat([]byte{6}, 32)
	secp := must.Get(near.ParseSecretKey("secp256k1:" + near.EncodeBase58(seed)))(t)
	var got seen
	script(t, map[string]any{
		"task": "use", "rpc": ready.NEAR.RPC, "accounts": accounts,
		"secp": "secp256k1:" + near.EncodeBase58(append(seed, secp.Public().Bytes()...)),
	}, &got)
	want := seen{
		Created: "5000000000000000000000000", Taken: "AccountAlreadyExistsActionError", Foreign: "CreateAccountNotAllowedActionError",
		Transfer: "FINAL true", Received: "1000", Poor: "NotEnoughBalanceError", Nobody: "AccountDoesNotExistActionError",
		Count: []int{1, 42, 42, 44}, Failing: "ContractExecutionError", Method: "ContractMethodNotFoundError", Session: 43,
		Limits: []string{"AccessKeyRequiresFullAccessActionError", "AccessKeyReceiverMismatchActionError", "AccessKeyMethodNameMismatchActionError"},
		Keys:   2, Gone: "AccessKeyDoesNotExistError",
		Relayed: "FINAL true", Replayed: "DelegateActionInvalidNonceActionError",
		Below: "InvalidNonceError", Again: true, Unknown: "UnknownTransactionError", Deleted: "AccountDoesNotExistError", Block: "UnknownBlockError",
		GasPrice: "100000000", NetworkID: "localnet",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("near-api-js has seen (-want +got):\n%s", diff)
	}
}
