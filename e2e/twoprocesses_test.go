package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"testing"
)

// TestDevnetAndServe runs the network and the relay as two programs that know
// each other by their addresses alone, as a relay and a real network do.
func TestDevnetAndServe(t *testing.T) {
	t.Parallel()
	devnet := &network{process: start(t, nil, "devnet", "--json", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0")}
	devnet.process.readReady(devnet)
	devnet.Accounts = evmAccounts(devnet.Accounts)
	operator, sender, recipient := devnet.Accounts[0], devnet.Accounts[1], devnet.Accounts[2]

	n := startServe(t, devnet, operator)
	receipt := castFields(t, n, "send", recipient.Address, "--value", "2ether", "--private-key", sender.PrivateKey)
	expect(t, receipt["status"], "0x1")
	expect(t, castRun(t, n, "nonce", sender.Address), "1")

	t.Run("restart", func(t *testing.T) {
		n.process.signal(syscall.SIGTERM)
		expect(t, n.process.wait(), 0)
		again := startServe(t, devnet, operator)
		expect(t, castRun(t, again, "nonce", sender.Address), "1")
		receipt := castFields(t, again, "send", recipient.Address, "--value", "1ether", "--private-key", sender.PrivateKey)
		expect(t, receipt["status"], "0x1")
	})
}

// startServe runs a relay in front of the devnet, configured by environment alone.
func startServe(t *testing.T, devnet *network, operator account, env ...string) *network {
	t.Helper()
	nodes, err := json.Marshal(map[string]string{devnet.Consensus: "0.0.3"})
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	settings := []string{
		"CHAIN_ID=0x12a",
		"HEDERA_NETWORK=" + string(nodes),
		"MIRROR_NODE_URL=" + devnet.Mirror,
		"OPERATOR_ID_MAIN=" + operator.ID,
		"OPERATOR_KEY_MAIN=" + operator.PrivateKey,
		"OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"SERVER_HOST=127.0.0.1",
		"SERVER_PORT=" + strconv.Itoa(port),
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	n := &network{RPC: url, Mirror: devnet.Mirror, Accounts: devnet.Accounts, process: start(t, append(settings, env...), "serve")}
	until(t, "serve answers on "+url, func() bool {
		select {
		case <-n.process.ended:
			t.Fatalf("serve ended: %v\n%s", n.process.err, n.process.stderr)
		default:
		}
		response, err := http.Get(url + "/health/readiness")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return n
}

// freePort gives a port that was free a moment ago, for settings that take no 0.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
