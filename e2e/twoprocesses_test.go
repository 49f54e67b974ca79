package e2e

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"lockstep/internal/must"
)

// TestDevnetAndServe runs the network and the relay as two programs that know
// each other by their addresses alone, as a relay and a real network do.
func TestDevnetAndServe(t *testing.T) {
	t.Parallel()
	devnet := startDevnet(t)
	operator, sender, recipient := devnet.Accounts[0], devnet.Accounts[1], devnet.Accounts[2]

	n := startServe(t, devnet, operator)
	receipt := castFields(t, n, "send", recipient.Address, "--value", "2ether", "--private-key", sender.PrivateKey)
	expect(t, receipt["status"], "0x1")
	expect(t, castRun(t, n, "nonce", sender.Address), "1")

	t.Run("WebSocket", func(t *testing.T) {
		nonce, err := dial(t, n.WS).NonceAt(t.Context(), sender.address(), nil)
		if err != nil || nonce != 1 {
			t.Errorf("nonce %d, %v", nonce, err)
		}
	})
	t.Run("taken port", func(t *testing.T) {
		_, port := must.Get2(net.SplitHostPort(strings.TrimPrefix(n.RPC, "http://")))(t)
		second := start(t, append(serveSettings(t, devnet, operator), "SERVER_PORT="+port), "serve")
		checkTaken(t, second, port, "SERVER_PORT")
	})
	t.Run("restart", func(t *testing.T) {
		n.process.Signal(syscall.SIGTERM)
		expect(t, n.process.Exit(), 0)
		again := startServe(t, devnet, operator)
		expect(t, castRun(t, again, "nonce", sender.Address), "1")
		receipt := castFields(t, again, "send", recipient.Address, "--value", "1ether", "--private-key", sender.PrivateKey)
		expect(t, receipt["status"], "0x1")
	})
}

// startDevnet runs the network alone.
func startDevnet(t *testing.T) *network {
	t.Helper()
	devnet := &network{process: start(t, nil, "devnet", "--json", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0")}
	devnet.process.ReadReady(devnet)
	devnet.Accounts = evmAccounts(devnet.Accounts)
	return devnet
}

// startServe runs a relay in front of the devnet, configured by environment alone.
func startServe(t *testing.T, devnet *network, operator account, env ...string) *network {
	t.Helper()
	settings := append(serveSettings(t, devnet, operator), "SERVER_PORT=0", "RPC_WS_ENABLED=true", "WEB_SOCKET_PORT=0")
	p := start(t, append(settings, env...), "serve")
	address, ws, _ := p.Addresses()
	n := &network{RPC: "http://" + address, WS: "ws://" + ws, Mirror: devnet.Mirror, Accounts: devnet.Accounts, process: p}
	until(t, "serve is ready on "+n.RPC, func() bool {
		response, err := http.Get(n.RPC + "/health/readiness")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return n
}

// serveSettings are all that a relay needs, but for its ports.
func serveSettings(t *testing.T, devnet *network, operator account) []string {
	t.Helper()
	nodes := must.Get(json.Marshal(map[string]string{devnet.Consensus: "0.0.3"}))(t)
	return []string{
		"CHAIN_ID=0x12a",
		"HEDERA_NETWORK=" + string(nodes),
		"MIRROR_NODE_URL=" + devnet.Mirror,
		"OPERATOR_ID_MAIN=" + operator.ID,
		"OPERATOR_KEY_MAIN=" + operator.PrivateKey,
		"OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"SERVER_HOST=127.0.0.1",
		"PRETTY_LOGS_ENABLED=false",
	}
}
