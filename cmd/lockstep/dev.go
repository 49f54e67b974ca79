package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"lockstep/app"
	"lockstep/config"
	"lockstep/devnet"
)

const devAbout = `Runs a one-process Hedera and a relay in front of it: consensus nodes over gRPC, a
mirror node over REST, contracts in an EVM, JSON-RPC over HTTP and WebSocket. The
accounts it prints are funded and their keys are public: never use them elsewhere.

Settings of the relay may be given in the environment (docs/CONFIG.md); those that
name the network are this command's own. Ordering is on unless ENABLE_NONCE_ORDERING
says otherwise.`

func runDev(ctx context.Context, args []string, std streams) error {
	flags := newFlags("dev", devAbout, std)
	network := networkFlags(flags)
	http := flags.String("http", "127.0.0.1:7546", "`host:port` of JSON-RPC over HTTP; port 0 picks a free one")
	ws := flags.String("ws", "127.0.0.1:8546", "`host:port` of JSON-RPC over WebSocket; port 0 picks a free one")
	asJSON := flags.Bool("json", false, "print one line of JSON when ready, instead of a page for people")
	if err := parse(flags, args); err != nil {
		return err
	}
	chain, err := network.start(ctx)
	if err != nil {
		return err
	}
	relay, err := devRelay(ctx, chain, std, app.Endpoint{Address: *http, Setting: "--http"}, app.Endpoint{Address: *ws, Setting: "--ws"})
	if err != nil {
		chain.Close()
		return err
	}
	ready := newReady(chain)
	ready.RPC, ready.WS = "http://"+relay.HTTPAddr(), "ws://"+relay.WSAddr()
	if err := ready.print(std.out, *asJSON); err != nil {
		return err
	}
	return runBoth(ctx, relay, chain)
}

// devRelay builds the relay for the network and opens its ports.
func devRelay(ctx context.Context, chain *chain, std streams, http, ws app.Endpoint) (*app.App, error) {
	environ, err := devEnviron(chain, std.env)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(environ)
	if err != nil {
		return nil, fmt.Errorf("configuration:\n%w", err)
	}
	log, err := newLogger(std.err, cfg.Log)
	if err != nil {
		return nil, err
	}
	relay, err := app.New(cfg, version, log)
	if err != nil {
		return nil, err
	}
	return relay, relay.Listen(ctx, http, ws)
}

// devEnviron is the environment with what the network decides, and with defaults
// that suit development.
func devEnviron(chain *chain, environ []string) ([]string, error) {
	network, secure := chain.Nodes(), len(chain.TLSNodes()) > 0
	if secure {
		network = chain.TLSNodes()
	}
	nodes, err := json.Marshal(network)
	if err != nil {
		return nil, err
	}
	pins, err := json.Marshal(chain.CertHashes())
	if err != nil {
		return nil, err
	}
	defaults := []string{
		"ENABLE_NONCE_ORDERING=true",
		"NONCE_GAP_HOLD_MS=1000",
		"RELAY_PROFILE=ethereum",
		"WS_CONNECTION_LIMIT=1000",
		"WS_CONNECTION_LIMIT_PER_IP=1000",
		"DEBUG_API_ENABLED=true",
		"TXPOOL_API_ENABLED=true",
		"MIRROR_NODE_PUSH_ENABLED=true",
		"LOG_LEVEL=warn",
	}
	// The last of several values counts.
	return append(append(defaults, environ...),
		"CHAIN_ID=298",
		"HEDERA_NETWORK="+string(nodes),
		"MIRROR_NODE_URL="+chain.Mirror(),
		"MIRROR_NODE_URL_WEB3="+chain.Mirror(),
		"OPERATOR_ID_MAIN="+devnet.OperatorID(),
		"OPERATOR_KEY_MAIN="+devnet.OperatorKey(),
		"OPERATOR_KEY_MAIN_FILE=",
		"OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"CLIENT_TRANSPORT_SECURITY="+strconv.FormatBool(secure),
		"HEDERA_NODE_CERT_HASHES="+string(pins),
	), nil
}

// runBoth runs chain and relay until ctx ends. The relay stops first: what it has
// accepted still gets its verdict.
func runBoth(ctx context.Context, relay *app.App, chain *chain) error {
	chainCtx, stopChain := context.WithCancel(context.WithoutCancel(ctx))
	defer stopChain()
	relayCtx, stopRelay := context.WithCancel(ctx)
	defer stopRelay()
	stopped := make(chan error, 1)
	go func() {
		stopped <- chain.Run(chainCtx)
		stopRelay()
	}()
	err := relay.Run(relayCtx)
	stopChain()
	return errors.Join(err, <-stopped)
}

func runDevnet(ctx context.Context, args []string, std streams) error {
	flags := newFlags("devnet", `Runs the development network alone: consensus nodes over gRPC and a mirror node over
REST. "lockstep serve", or any other relay, can be pointed at it.`, std)
	network := networkFlags(flags)
	asJSON := flags.Bool("json", false, "print one line of JSON when ready, instead of a page for people")
	if err := parse(flags, args); err != nil {
		return err
	}
	chain, err := network.start(ctx)
	if err != nil {
		return err
	}
	if err := newReady(chain).print(std.out, *asJSON); err != nil {
		return err
	}
	return chain.Run(ctx)
}

// ready is what is printed once everything answers.
type ready struct {
	Ready     bool              `json:"ready"`
	RPC       string            `json:"rpc,omitempty"`
	WS        string            `json:"ws,omitempty"`
	Mirror    string            `json:"mirror"`
	Consensus string            `json:"consensus"`
	Nodes     map[string]string `json:"nodes"`
	TLSNodes  map[string]string `json:"tlsNodes,omitempty"`
	Pins      map[string]string `json:"certHashes,omitempty"`
	Control   string            `json:"control,omitempty"`
	ChainID   uint64            `json:"chainId"`
	Accounts  []devnet.Account  `json:"accounts"`
}

func newReady(chain *chain) ready {
	return ready{
		Ready: true, Mirror: chain.Mirror(), Consensus: chain.Consensus()[0], Nodes: chain.Nodes(), ChainID: 298, Accounts: chain.Accounts(),
		TLSNodes: chain.TLSNodes(), Pins: chain.CertHashes(), Control: chain.controlURL(),
	}
}

func (r ready) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	_, err := io.WriteString(w, r.page())
	return err
}

// page shows the URLs and accounts to people.
func (r ready) page() string {
	var b strings.Builder
	b.WriteString("\nLockstep development network, chain id 298 (0x12a)\n\n")
	for _, line := range [][2]string{
		{"JSON-RPC", r.RPC}, {"WebSocket", r.WS}, {"mirror node", r.Mirror}, {"consensus node", r.Consensus}, {"faults", r.Control},
	} {
		if line[1] != "" {
			fmt.Fprintf(&b, "  %-15s %s\n", line[0], line[1])
		}
	}
	b.WriteString("\nFunded accounts; their keys are public, never use them elsewhere.\n\n")
	for _, a := range r.Accounts {
		fmt.Fprintf(&b, "  %-10s %s  %s  %9d ℏ", a.ID, a.Address, a.PrivateKey, a.Balance)
		if a.KeyType == "ED25519" {
			b.WriteString("  Ed25519")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\nready at %s; stop with Ctrl-C\n", time.Now().Format(time.TimeOnly))
	return b.String()
}
