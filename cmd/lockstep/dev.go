package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/app"
	"lockstep/cmd/lockstep/develop"
	"lockstep/cmd/lockstep/show"
	"lockstep/config"
	consolepage "lockstep/console/page"
	"lockstep/devnet"
	"lockstep/devnet/faults"
	"lockstep/devnet/near"
	"lockstep/devnet/upstream"
	"lockstep/txmgr/service"
)

const devAbout = `Runs a one-process Hedera and a relay in front of it: consensus nodes over gRPC, a
mirror node over REST, contracts in an EVM, JSON-RPC over HTTP and WebSocket. The
accounts it prints are funded and their keys are public: never use them elsewhere.

Settings of the relay may be given in the environment (docs/CONFIG.md); those that
name the network are this command's own. Ordering is on unless ENABLE_NONCE_ORDERING
says otherwise.

"lockstep dev [flags] -- CMD ARGS" runs a command against a fresh network, which it finds
in RPC_URL, ETH_RPC_URL, WS_URL, MIRROR_NODE_URL, CONSENSUS_NODE, CHAIN_ID, OPERATOR_ID and
OPERATOR_KEY, and ends as the command ends.

A second network beside the first takes other ports:
  lockstep dev --http 127.0.0.1:0 --ws 127.0.0.1:0 --mirror 127.0.0.1:0 --consensus 127.0.0.1:0`

func runDev(ctx context.Context, args []string, std streams) error {
	flags := newFlags("dev", devAbout, std)
	network := networkFlags(flags)
	http := flags.String("http", "127.0.0.1:7546", "`host:port` of JSON-RPC over HTTP; port 0 picks a free one")
	ws := flags.String("ws", "127.0.0.1:8546", "`host:port` of JSON-RPC over WebSocket; port 0 picks a free one")
	asJSON := flags.Bool("json", false, "print one line of JSON when ready, instead of a page for people")
	ui := flags.String("ui", devUI, "`host:port` of the page that shows the chain and the order in a browser; if the default is taken, a free port; empty for no page")
	tx := flags.Bool("tx", false, "run a transaction manager, too: signers of its own, ledger in memory (docs/TXM.md)")
	txAddress := flags.String("tx-address", usualManager, "`host:port` of the transaction manager; port 0 picks a free one")
	nearToo := flags.Bool("near", false, "run a model of a NEAR chain, too: accounts, access keys, a node's JSON-RPC (docs/internals/NETWORK.md)")
	nearAddress := flags.String("near-address", "127.0.0.1:3030", "`host:port` of the NEAR node; port 0 picks a free one")
	accounts := accountsFlag(flags)
	folder := flags.String("abi", "", "`folder` with artifacts or ABIs, from which transactions in the terminal get names (default: that of a Hardhat or Foundry project in this directory)")
	quiet := flags.Bool("quiet", false, "do not show transactions; with --json or a command they are not shown either")
	args, command := splitCommand(args)
	if err := parse(flags, args); err != nil {
		return err
	}
	if command != nil && len(command) == 0 {
		fmt.Fprintf(flags.Output(), "%s: no command after --\n", flags.Name())
		return errUsage
	}
	known, err := show.NewNames(*folder)
	if err != nil {
		return err
	}
	if *tx {
		network.Signers = devSigners
	}
	chain, err := network.start(ctx)
	if err != nil {
		return err
	}
	page, err := listenUI(ctx, *ui)
	if err != nil {
		chain.Close()
		return err
	}
	relay, tools, err := devRelay(ctx, chain, std, page, app.Endpoint{Address: *http, Setting: "--http"}, app.Endpoint{Address: *ws, Setting: "--ws"}, managedBy(chain))
	if err != nil {
		chain.Close()
		return err
	}
	ready := newReady(chain)
	ready.RPC, ready.WS = "http://"+relay.HTTPAddr(), "ws://"+relay.WSAddr()
	if at := relay.AdminAddr(); at != "" {
		ready.UI = "http://" + at + consolepage.Prefix
	}
	var manager *service.Service
	if *tx {
		if manager, err = startDevManager(ctx, chain, std, *txAddress, ready.UI); err != nil {
			chain.Close()
			return err
		}
		ready.TX, ready.Signers = manager.URL(), chain.Network.Signers()
		relay.Beside("Transaction manager", manager.URL()+consolepage.Prefix)
	}
	var further []func(context.Context) error
	if *nearToo {
		node, err := near.Listen(ctx, *nearAddress)
		if err != nil {
			chain.Close()
			return err
		}
		ready.NEAR = node.Ready()
		further = append(further, node.Run)
	}
	if !*quiet && !*asJSON && command == nil {
		further = append(further, show.New(chain.Ledger(), std.out, &tools.Quiet, known).Run)
	}
	serve := func(ctx context.Context) error { return runAll(ctx, relay, manager, chain, further...) }
	if command != nil {
		return runCommand(ctx, serve, ready, command, std)
	}
	if err := ready.print(std, *asJSON, *accounts); err != nil {
		return err
	}
	return serve(ctx)
}

// devRelay builds the relay for the network and opens its ports; that of its page is open already, if it has one.
func devRelay(ctx context.Context, chain *chain, std streams, ui net.Listener, http, ws app.Endpoint, more ...string) (*app.App, *develop.Developer, error) {
	environ, err := devEnviron(chain, append(std.env[:len(std.env):len(std.env)], more...))
	if err != nil {
		return nil, nil, err
	}
	if ui != nil {
		environ = append(environ, "ADMIN_ADDRESS=") // --ui says where
	}
	cfg, err := config.Load(environ)
	if err != nil {
		return nil, nil, fmt.Errorf("configuration:\n%w", err)
	}
	log, err := newLogger(std.err, cfg.Log)
	if err != nil {
		return nil, nil, err
	}
	tools, err := develop.New(chain.Network, version, log)
	if err != nil {
		return nil, nil, err
	}
	relay, err := app.New(cfg, version, log, tools.Methods()...)
	if err != nil {
		return nil, nil, err
	}
	mirror, err := url.Parse(chain.Mirror())
	if err != nil {
		return nil, nil, err
	}
	relay.Develops(mirror, ui)
	if err := relay.Listen(ctx, http, ws); err != nil {
		return nil, nil, err
	}
	tools.Before(relay)
	return relay, tools, nil
}

// devUI is where the page is if nobody says otherwise. `lockstep locks` looks there, too.
const devUI = "127.0.0.1:7547"

// listenUI opens the port of the page, a free one if the default is taken: a second network beside a first
// one is no mistake.
func listenUI(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // there is no page then
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil && address == devUI {
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("--ui: %w", err)
	}
	return listener, nil
}

// devAPIs are the families of methods that a chain for development has.
const devAPIs = "eth,debug,net,web3,txpool,trace,admin,evm,hardhat,anvil,personal,lockstep"

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
		"NONCE_GAP_HOLD_MS=150", // what nobody has sent is told within a second, after five of these
		"RELAY_PROFILE=ethereum",
		"WS_CONNECTION_LIMIT=1000",
		"WS_CONNECTION_LIMIT_PER_IP=1000",
		"DEBUG_API_ENABLED=true",
		"TXPOOL_API_ENABLED=true",
		"MIRROR_NODE_PUSH_ENABLED=true",
		"LOG_LEVEL=warn",
		"INPUT_SIZE_LIMIT=64", // megabytes, for anvil_loadState
		"WS_INPUT_SIZE_LIMIT=64",
		"WEB3_CLIENT_NAME=anvil/lockstep", // test helpers refuse chains that do not call themselves one of those they know
		"RPC_HTTP_API=" + devAPIs,
		"RPC_WS_API=" + devAPIs,
		"SHUTDOWN_DRAIN_DELAY_MS=0",
		"COST_METRICS_ENABLED=false",
		"TX_STATUS_TRACING=true",
	}
	if chain.immediate() {
		// What was sent is shown as soon as it is mined: nobody need wait for it.
		defaults = append(defaults, "READ_YOUR_WRITES_WAIT_MS=0")
	}
	// The last of several values counts.
	return append(append(defaults, environ...),
		"CHAIN_ID=298",
		"RPC_WS_ENABLED=true", // --ws says where
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

// runAll runs the chain, the relay, the transaction manager where there is one, and what is
// further until ctx ends. The chain stops last: what was accepted still gets its verdict.
func runAll(ctx context.Context, relay *app.App, manager *service.Service, chain *chain, further ...func(context.Context) error) error {
	chainCtx, stopChain := context.WithCancel(context.WithoutCancel(ctx))
	defer stopChain()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() {
		stopped <- chain.Run(chainCtx)
		stop()
	}()
	var group errgroup.Group
	part := func(run func(context.Context) error) {
		group.Go(func() error {
			defer stop()
			return run(ctx)
		})
	}
	part(relay.Run)
	if manager != nil {
		part(manager.Run)
	}
	for _, run := range further {
		part(run)
	}
	err := group.Wait()
	stopChain()
	return errors.Join(err, <-stopped)
}

func runDevnet(ctx context.Context, args []string, std streams) error {
	flags := newFlags("devnet", `Runs the development network alone: consensus nodes over gRPC and a mirror node over
REST. "lockstep serve", or any other relay, can be pointed at it.`, std)
	network := networkFlags(flags)
	asJSON := flags.Bool("json", false, "print one line of JSON when ready, instead of a page for people")
	accounts := accountsFlag(flags)
	var env string
	flags.Func("env", "`file` to write the settings of a relay on this network to, such as .env; one that exists is left alone", func(name string) error {
		if env = name; strings.HasPrefix(name, "-") {
			return errors.New("want a file, and this is a flag")
		}
		return nil
	})
	if err := parse(flags, args); err != nil {
		return err
	}
	chain, err := network.start(ctx)
	if err != nil {
		return err
	}
	ready := newReady(chain)
	if env != "" {
		if err := ready.writeSettings(env); err != nil {
			chain.Close()
			return err
		}
	}
	if err := ready.print(std, *asJSON, *accounts); err != nil {
		return err
	}
	return chain.Run(ctx)
}

// ready is what is printed once everything answers.
type ready struct {
	Ready     bool              `json:"ready"`
	RPC       string            `json:"rpc,omitempty"`
	WS        string            `json:"ws,omitempty"`
	UI        string            `json:"ui,omitempty"`
	Mirror    string            `json:"mirror"`
	Topics    string            `json:"mirrorGrpc,omitempty"`
	Consensus string            `json:"consensus"`
	Nodes     map[string]string `json:"nodes"`
	TLSNodes  map[string]string `json:"tlsNodes,omitempty"`
	Pins      map[string]string `json:"certHashes,omitempty"`
	Control   string            `json:"control,omitempty"`
	TX        string            `json:"tx,omitempty"`
	NEAR      *near.Ready       `json:"near,omitempty"`
	Fork      *develop.Fork     `json:"fork,omitempty"`
	ChainID   uint64            `json:"chainId"`
	Accounts  []devnet.Account  `json:"accounts"`
	Signers   []devnet.Account  `json:"signers,omitempty"`

	onDemand bool // there are no blocks without transactions
}

func newReady(chain *chain) ready {
	return ready{
		Fork: develop.NewFork(chain.Network), Topics: chain.MirrorGRPC(),
		Ready: true, Mirror: chain.Mirror(), Consensus: chain.Consensus()[0], Nodes: chain.Nodes(), ChainID: 298, Accounts: chain.Accounts(),
		TLSNodes: chain.TLSNodes(), Pins: chain.CertHashes(), Control: chain.controlURL(),
		onDemand: chain.shape.BlockTime == 0,
	}
}

// print writes it for programs, or for people at a terminal.
func (r ready) print(std streams, asJSON, allAccounts bool) error {
	if asJSON {
		return json.NewEncoder(std.out).Encode(r)
	}
	_, err := io.WriteString(std.out, r.page(terminalOf(std.out), allAccounts))
	return err
}

// accountsFlag declares --accounts, and returns whether all are to be shown.
func accountsFlag(flags *flag.FlagSet) *bool {
	all := new(bool)
	flags.Func("accounts", "how many funded `accounts` are shown: some or all (default some)", func(text string) error {
		if text != "some" && text != "all" {
			return errors.New("want some or all")
		}
		*all = text == "all"
		return nil
	})
	return all
}

// shownAccounts is how many funded accounts the page has unless --accounts all asks for the rest.
const shownAccounts = 10

// page shows people what they copy from here: URLs, accounts, and what a wallet asks for. Unless all accounts are
// wanted, it fits a terminal of 25 lines and 80 columns.
func (r ready) page(t terminal, all bool) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "  %-15s %s\n", name, t.paint(cyan, value)) }
	b.WriteString(t.paint(bold, "Lockstep development network, chain id 298 (0x12a)") + "\n\n")
	for _, url := range [][2]string{
		{"JSON-RPC", r.RPC}, {"WebSocket", r.WS}, {"page", r.UI}, {"transactions", r.TX}, {"mirror node", r.Mirror}, {"faults", r.Control},
	} {
		if url[1] != "" {
			line(url[0], url[1])
		}
	}
	for _, address := range slices.SortedFunc(maps.Keys(r.Nodes), r.byAccount) {
		line("consensus node", address+"  "+r.Nodes[address])
	}
	if r.Topics != "" && (all || r.RPC == "") {
		line("mirror's gRPC", r.Topics)
	}
	if r.Fork != nil {
		line("fork of", fmt.Sprintf("%s, block %d", r.Fork.URL, r.Fork.Block))
	}
	r.writeAccounts(&b, t, all)
	if r.NEAR != nil {
		fmt.Fprintf(&b, "\nA model of a NEAR chain, %s\n\n", r.NEAR.RPC)
		for _, a := range r.NEAR.Accounts {
			fmt.Fprintf(&b, "  %-14s %s\n", a.ID, a.SecretKey)
		}
	}
	if r.RPC == "" { // the chain alone
		b.WriteString("\nSettings of a relay on this network (--env .env writes them into a file):\n\n" + r.settings() + "\n")
	} else {
		fmt.Fprintf(&b, "\nMetaMask: RPC URL %s, chain ID %d, symbol HBAR\n", r.RPC, r.ChainID)
	}
	if r.onDemand && r.RPC != "" {
		b.WriteString("Blocks come with transactions. If you wait for confirmations, use --block-time 2s.\n")
	}
	fmt.Fprintf(&b, "Ready at %s. Ctrl-C or kill %d stops it.\n", time.Now().Format(time.TimeOnly), os.Getpid())
	return b.String()
}

// writeAccounts lists funded accounts. A key and its address are together wider than 80 columns. In a terminal that is
// too narrow for both, the address is cut, since it can be had from the key; where all accounts are wanted and lines don't
// count, the key has a line of its own.
func (r ready) writeAccounts(b *strings.Builder, t terminal, all bool) {
	accounts := r.Accounts
	title := fmt.Sprintf("%d funded accounts. Their keys are public: use them for nothing else.", len(accounts))
	if !all && len(accounts) > shownAccounts {
		accounts = accounts[:shownAccounts]
		title = fmt.Sprintf("%d of %d funded accounts (--accounts all). Their keys are public knowledge.", len(accounts), len(r.Accounts))
	}
	b.WriteString("\n" + title + "\n")
	const bothWide = 42 + 1 + 66 + 1 + 11
	row := func(address, key, balance string) string {
		return fmt.Sprintf("%-42s %-66s %11s", address, key, balance)
	}
	narrow := t.columns > 0 && t.columns < bothWide
	switch {
	case narrow && all:
		row = func(address, key, balance string) string {
			return fmt.Sprintf("%-42s %11s\n  %-66s", address, balance, key)
		}
	case narrow:
		row = func(address, key, balance string) string {
			if len(address) == 42 {
				address = address[:5] + "…" + address[39:]
			}
			return fmt.Sprintf("%-9s %-66s %3s", address, key, balance)
		}
	}
	b.WriteString(t.paint(dim, row("address", "key", "ℏ")) + "\n")
	for _, a := range accounts {
		balance := strconv.FormatInt(a.Balance, 10)
		if narrow && !all {
			balance = strings.Replace(strings.Replace(balance, "000000", "M", 1), "000", "k", 1)
		}
		text := row(a.Address, a.PrivateKey, balance)
		if a.KeyType == "ED25519" {
			text += " Ed25519"
		}
		b.WriteString(text + "\n")
	}
	for _, a := range r.Signers {
		fmt.Fprintf(b, "%s the transaction manager sends from it\n", a.Address)
	}
}

// byAccount orders the addresses of nodes as their accounts are numbered.
func (r ready) byAccount(a, b string) int {
	return cmp.Or(cmp.Compare(len(r.Nodes[a]), len(r.Nodes[b])), strings.Compare(r.Nodes[a], r.Nodes[b]))
}

// settings are those of a relay on this network, as lines of a .env file.
func (r ready) settings() string {
	nodes, _ := json.Marshal(r.Nodes) // texts always can be
	var b strings.Builder
	for _, line := range []string{
		"CHAIN_ID=" + strconv.FormatUint(r.ChainID, 10),
		"HEDERA_NETWORK=" + string(nodes),
		"MIRROR_NODE_URL=" + r.Mirror,
		"OPERATOR_ID_MAIN=" + devnet.OperatorID(),
		"OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"OPERATOR_KEY_MAIN=" + devnet.OperatorKey(),
	} {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// writeSettings makes a .env file. It never replaces one: somebody's keys may be in it.
func (r ready) writeSettings(name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("--env: %s exists already, and is not replaced", name)
	}
	if err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	_, err = file.WriteString(r.settings())
	return errors.Join(err, file.Close())
}

// stopTime is how long a command may take to end after it was asked to.
const stopTime = 5 * time.Second

// splitCommand separates the flags from the command that stands after "--".
func splitCommand(args []string) (flags, command []string) {
	i := slices.Index(args, "--")
	if i < 0 {
		return args, nil
	}
	return args[:i], args[i+1:]
}

// runCommand serves the network for as long as a command runs, and ends as the command
// ends. The command finds the network in its environment.
func runCommand(ctx context.Context, serve func(context.Context) error, ready ready, command []string, std streams) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx)
		stop() // without the network the command has nothing to do
	}()
	c := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // it is the user's own command
	c.Stdin, c.Stdout, c.Stderr = std.in, std.out, std.err
	c.Env = append(slices.Clone(std.env), ready.environ()...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = stopTime
	err := c.Run()
	stop()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		err = exit{code: max(ended.ExitCode(), 1), error: fmt.Errorf("%s: %w", command[0], err)}
	}
	return errors.Join(err, <-served)
}

// environ is where a command finds the network, under the names that tools of the
// ecosystem read.
func (r ready) environ() []string {
	environ := []string{
		"RPC_URL=" + r.RPC, "ETH_RPC_URL=" + r.RPC, "WS_URL=" + r.WS, "MIRROR_NODE_URL=" + r.Mirror, "CONSENSUS_NODE=" + r.Consensus,
		fmt.Sprintf("CHAIN_ID=%d", r.ChainID), "OPERATOR_ID=" + devnet.OperatorID(), "OPERATOR_KEY=" + devnet.OperatorKey(),
	}
	if r.NEAR != nil {
		environ = append(environ, "NEAR_RPC_URL="+r.NEAR.RPC)
	}
	return environ
}

// devSigners is how many accounts the manager of `lockstep dev --tx` sends from.
const devSigners = 3

// managedBy is the setting by which a relay refuses the accounts of a chain's manager.
func managedBy(chain *chain) string {
	var list []string
	for _, a := range chain.Network.Signers() {
		list = append(list, a.Address)
	}
	return "TXM_MANAGED_SIGNERS=" + strings.Join(list, ",")
}

// startDevManager puts a manager beside the relay of `lockstep dev`. It goes to the chain's
// nodes itself: the relay refuses transactions of its accounts, which would take its nonces. ui is the relay's page, "" for none.
func startDevManager(ctx context.Context, chain *chain, std streams, address, ui string) (*service.Service, error) {
	environ, err := devEnviron(chain, std.env)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, a := range chain.Network.Signers() {
		keys = append(keys, a.PrivateKey)
	}
	cfg, err := config.LoadManager(append(environ,
		`TXM_CHAINS={"298":{"driver":"hedera"}}`, "DATABASE_URL=memory:", "DATABASE_URL_FILE=", "TXM_REDIS_URL=", "TXM_REDIS_URL_FILE=",
		"RELAYER_PRIVATE_KEYS="+strings.Join(keys, ","), "TXM_ADDRESS="+address, "TXM_LOOPBACK_TOKEN=false", "INSTANCE_ID=dev",
	))
	if err != nil {
		return nil, fmt.Errorf("configuration:\n%w", err)
	}
	log, err := newLogger(std.err, cfg.Log)
	if err != nil {
		return nil, err
	}
	deps := service.Deps{Drivers: drivers(cfg, log), Version: version, Log: log}
	if ui != "" {
		deps.Beside = []consolepage.Link{{Text: "Chain and relay", URL: ui}}
	}
	manager, err := service.New(ctx, cfg.TXM, deps)
	if err != nil {
		return nil, err
	}
	if err := manager.Listen(ctx); err != nil {
		return nil, closeAfter(manager, err)
	}
	return manager, nil
}

// immediate tells whether the mirror node shows everything as soon as it is in a block, and
// each transaction is in one when its sender is answered.
func (c *chain) immediate() bool { return c.shape.MirrorLag == 0 && c.shape.BlockTime == 0 }

// chain is the development network and the port through which it can be told to
// misbehave.
type chain struct {
	*devnet.Network
	shape   devnet.Config
	rules   *faults.Rules
	control net.Listener // nil: none
}

// devTopics is where SDKs look for the gRPC API of a local network's mirror node.
const devTopics = "127.0.0.1:5600"

// chainFlags are the flags that shape a chain.
type chainFlags struct {
	devnet.Config
	faults, control string
}

// networkFlags declares the flags that shape the development network.
func networkFlags(flags *flag.FlagSet) *chainFlags {
	var c chainFlags
	flags.StringVar(&c.Mirror, "mirror", devnet.DefaultMirror, "`host:port` of the mirror node's REST API; port 0 picks a free one")
	flags.StringVar(&c.MirrorGRPC, "mirror-grpc", devTopics, "`host:port` of the mirror node's gRPC API, for subscriptions to topics; if the default is taken, a free port; empty for none")
	flags.StringVar(&c.Consensus, "consensus", devnet.DefaultConsensus, "`host:port` of the first consensus node's gRPC API; further nodes take every tenth port")
	flags.DurationVar(&c.BlockTime, "block-time", 0, "consensus time that a block covers, 2s on the real network; there are also blocks without transactions (0: a block for every transaction, and no others)")
	flags.DurationVar(&c.ConsensusLatency, "consensus-latency", 0, "time from a node's acceptance to consensus")
	flags.DurationVar(&c.Jitter, "jitter", 0, "maximum of a random time that is added to it at each node (default: half of it when there are several nodes)")
	flags.DurationVar(&c.MirrorLag, "mirror-lag", 0, "how far the mirror node is behind consensus")
	flags.IntVar(&c.Nodes, "nodes", 1, "number of consensus nodes; transactions given to different ones may change order")
	flags.IntVar(&c.History, "history", 0, "number of closed blocks that are kept (0: the default)")
	flags.StringVar(&c.State, "state", "", "`file` that the network is loaded from, if it exists, and saved to: at its end and every --state-interval")
	flags.DurationVar(&c.StateInterval, "state-interval", devnet.DefaultStateInterval, "how often --state is saved while transactions arrive; less often if a save takes long")
	flags.StringVar(&c.Fork.URL, "fork-url", "", "`URL` of a mirror node; this network begins with the state of its network: accounts, contracts and tokens are\n"+
		"read when they are needed, and changed here only (docs/DEVNET.md)")
	flags.Func("fork-block", "`number` of the block after which the fork begins (default: the newest one)", func(text string) error {
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil || number < 0 {
			return errors.New("want the number of a block")
		}
		c.Fork.Block = &number
		return nil
	})
	flags.DurationVar(&c.Fork.Timeout, "fork-timeout", upstream.DefaultTimeout, "maximum time for an answer of the mirror node of --fork-url")
	flags.BoolVar(&c.Deterministic, "deterministic", false, "the same input gives the same results: numbers, times and hashes depend only on what is submitted; blocks are a second apart and begin with 2026")
	flags.BoolVar(&c.Fees, "fees", false, "charge what transactions cost on the network (HIP-1261) besides gas")
	flags.BoolVar(&c.ExactEstimates, "exact-estimates", false, "estimates of gas are the lowest limit that is enough, not 5 % above the gas used or more as a mirror node's")
	flags.BoolVar(&c.SetCode, "set-code", false, "execute transactions with authorizations (EIP-7702, type 4), which Hedera refuses so far;\n"+
		"the relay lets them through with TX_TYPE_4_ENABLED=true")
	flags.BoolVar(&c.TLS, "tls", false, "consensus nodes listen for TLS as well, each at the port after its own; the hashes of their certificates are in network/nodes. The relay of \"dev\" uses it")
	flags.StringVar(&c.faults, "faults", "", "JSON `file` of rules that spoil calls to consensus nodes and mirror node, such as\n"+
		`[{"at":"submit","times":3,"status":"BUSY"},{"at":"mirror","path":"/blocks","delay":"2s"}]`+"\n"+
		"at: submit, receipt, query or mirror; only with node, body, path, skip, times, chance;\n"+
		"a consensus node can delay, goAway, dropBefore, grpc, status, vanish, lose, outcome, dropAfter;\n"+
		"the mirror node can delay, pause, hang, drop, httpStatus, retryAfter, garbage, cut")
	flags.StringVar(&c.control, "control", "", "loopback `host:port` where the rules can be read, replaced and removed while the network\n"+
		"runs: GET, PUT and DELETE of /faults; port 0 picks a free one (default: none)")
	return &c
}

// start makes the chain and opens its sockets.
func (c *chainFlags) start(ctx context.Context) (*chain, error) {
	made := &chain{shape: c.Config, rules: new(faults.Rules)}
	if c.faults != "" {
		text, err := os.ReadFile(c.faults)
		if err != nil {
			return nil, fmt.Errorf("--faults: %w", err)
		}
		if err := made.rules.Set(text); err != nil {
			return nil, fmt.Errorf("--faults %s: %w", c.faults, err)
		}
	}
	if c.faults != "" || c.control != "" {
		c.Fault, c.MirrorFault = made.rules.Node, made.rules.Mirror
	}
	var err error
	if c.control != "" {
		if made.control, err = faults.Listen(ctx, c.control); err != nil {
			return nil, fmt.Errorf("--control: %w", err)
		}
	}
	made.Network, err = devnet.New(ctx, c.Config)
	if errors.Is(err, syscall.EADDRINUSE) && c.MirrorGRPC == devTopics && strings.Contains(err.Error(), "--mirror-grpc") {
		c.MirrorGRPC = "127.0.0.1:0" // a second network beside a first one is no mistake
		made.Network, err = devnet.New(ctx, c.Config)
	}
	if err != nil {
		made.closeControl()
		return nil, err
	}
	return made, nil
}

// Run serves the network and the control port.
func (c *chain) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.Network.Run(ctx) })
	if c.control != nil {
		group.Go(func() error { return c.rules.Serve(ctx, c.control) })
	}
	return group.Wait()
}

// Close releases the sockets of a chain that is not going to run.
func (c *chain) Close() {
	c.Network.Close()
	c.closeControl()
}

func (c *chain) closeControl() {
	if c.control != nil {
		_ = c.control.Close() // nothing was served on it
	}
}

// controlURL is where the rules are, or "".
func (c *chain) controlURL() string {
	if c.control == nil {
		return ""
	}
	return "http://" + c.control.Addr().String() + "/faults"
}
