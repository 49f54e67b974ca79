package devnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/mirrorgrpc"
	"lockstep/devnet/mirrorrest"
	"lockstep/devnet/node"
	"lockstep/devnet/upstream"
	"lockstep/internal/hedera"
	"lockstep/internal/httpserve"
)

// Default addresses: the ports that local networks of the ecosystem use.
const (
	DefaultConsensus = "127.0.0.1:50211"
	DefaultMirror    = "127.0.0.1:5551"
)

// Limits on HTTP connections to the mirror node.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 32 << 10
	drainTime     = 2 * time.Second
)

// Config shapes a network. The zero value of a field means its default.
type Config struct {
	Consensus string // host:port of the first consensus node; DefaultConsensus. Further nodes take every tenth port.
	Mirror    string // host:port of the mirror node; DefaultMirror. Port 0 picks a free one, for either.

	// MirrorGRPC is the host:port of the mirror node's gRPC API, for subscriptions to topics; empty for none.
	MirrorGRPC string

	ChainID uint64 // EVM chain id; 298
	Nodes   int    // consensus nodes; 1

	BlockTime        time.Duration // consensus time per block, transactions or not; 0 closes a block after every transaction
	ConsensusLatency time.Duration // from acceptance to consensus
	Jitter           time.Duration // what chance adds to it; half of ConsensusLatency when there are several nodes
	MirrorLag        time.Duration // how old a block must be for the mirror node to show it
	History          int           // closed blocks kept; ledger.DefaultHistory

	// State is a file that the network is loaded from, if it exists, and saved to: every
	// StateInterval in which something happened, and at the end of Run. A file beside it, FILE.lock,
	// keeps a second network from it. Empty for none.
	State         string
	StateInterval time.Duration // DefaultStateInterval

	// Fork, where its URL is set, makes the network go on from the state of another one, which
	// its mirror node tells. Not with State.
	Fork upstream.Config

	Signers int // further funded accounts that no wallet has; [Network.Signers]

	// Deterministic makes numbers, times and hashes follow from what is submitted, and its order, alone.
	Deterministic bool

	// Fees charges what transactions cost on the network; without it only gas is charged.
	Fees bool

	// ExactEstimates has estimates of gas be the lowest limit that is enough. A mirror node's are 5 % above the gas used
	// or more.
	ExactEstimates bool

	// SetCode executes transactions with authorizations (EIP-7702, type 4). Hedera refuses them
	// so far; it is to have them with HIP-1340.
	SetCode bool

	// TLS makes the consensus nodes listen for TLS as well, each at the port after its own.
	TLS bool

	// Fault, where set, is asked about every call to a consensus node and may spoil it.
	Fault func(node.Call) node.Fault

	// MirrorFault, where set, is asked about every request to the mirror node and may spoil its answer.
	MirrorFault func(*http.Request) mirrorrest.Fault

	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Consensus = cmp.Or(c.Consensus, DefaultConsensus)
	c.Mirror = cmp.Or(c.Mirror, DefaultMirror)
	c.Nodes = cmp.Or(c.Nodes, 1)
	c.StateInterval = cmp.Or(c.StateInterval, DefaultStateInterval)
	if c.Jitter == 0 && c.Nodes > 1 {
		c.Jitter = c.ConsensusLatency / 2
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Network is a running or startable network.
type Network struct {
	cfg       Config
	ledger    *ledger.Ledger
	consensus *node.Network
	mirror    net.Listener
	topics    net.Listener     // nil: no gRPC API of the mirror node
	state     *stateFile       // nil: none
	origin    *upstream.Mirror // nil: the network is no fork
}

// New makes a network and opens its sockets. An address that is taken is an error
// that names the port and the flag that changes it. The caller runs the network or
// closes it.
func New(ctx context.Context, cfg Config) (*Network, error) {
	cfg = cfg.withDefaults()
	accounts := append(devaccounts.All(), devaccounts.Signers(cfg.Signers)...)
	origin, point, err := openFork(ctx, &cfg, accounts)
	if err != nil {
		return nil, err
	}
	l, err := ledger.New(ledger.Config{
		Accounts: accounts, Fork: point,
		ChainID: cfg.ChainID, BlockTime: cfg.BlockTime, History: cfg.History, SetCode: cfg.SetCode, Fees: cfg.Fees, Deterministic: cfg.Deterministic,
		ExactEstimates: cfg.ExactEstimates,
		Nodes:          node.NodeAccounts(cfg.Nodes), Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	consensus, err := node.New(node.Config{
		Ledger: l, Nodes: cfg.Nodes, Listen: cfg.Consensus,
		Latency: cfg.ConsensusLatency, Jitter: cfg.Jitter, TLS: cfg.TLS, Fault: cfg.Fault, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	if err := consensus.Listen(ctx); err != nil {
		return nil, addressError(err, "--consensus")
	}
	var lc net.ListenConfig
	mirror, err := lc.Listen(ctx, "tcp", cfg.Mirror)
	if err != nil {
		consensus.Close()
		return nil, addressError(fmt.Errorf("mirror node: %w", err), "--mirror")
	}
	n := &Network{cfg: cfg, ledger: l, consensus: consensus, mirror: mirror, origin: origin}
	if cfg.MirrorGRPC != "" {
		if n.topics, err = lc.Listen(ctx, "tcp", cfg.MirrorGRPC); err != nil {
			n.Close()
			return nil, addressError(fmt.Errorf("mirror node's gRPC: %w", err), "--mirror-grpc")
		}
	}
	if cfg.State != "" {
		if n.state, err = openState(&cfg, l); err != nil {
			n.Close()
			return nil, err
		}
	}
	return n, nil
}

// addressError says what to do about an address that cannot be had.
func addressError(err error, flag string) error {
	var op *net.OpError
	if errors.Is(err, syscall.EADDRINUSE) && errors.As(err, &op) {
		if at, ok := op.Addr.(*net.TCPAddr); ok {
			return fmt.Errorf("port %d is taken (%s), perhaps by a network that still runs; stop it, or choose another with %s, or 0 for any free one: %w", at.Port, at, flag, syscall.EADDRINUSE)
		}
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// Close releases the sockets of a network that is not going to run.
func (n *Network) Close() {
	n.consensus.Close()
	_ = n.mirror.Close() // nothing was served on it
	if n.topics != nil {
		_ = n.topics.Close()
	}
	if n.state != nil {
		n.state.close()
	}
}

// Run serves the network until the context ends or a part of it fails, and saves its state then.
func (n *Network) Run(ctx context.Context) error {
	err := n.serve(ctx)
	if n.state != nil {
		err = errors.Join(err, n.state.last())
	}
	return err
}

func (n *Network) serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	rest := mirrorrest.Config{
		View: n.MirrorView, Log: n.cfg.Log, Changed: n.ledger.Subscribe, Closing: ctx.Done(),
		Fault: n.cfg.MirrorFault,
	}
	if n.origin != nil {
		rest.Origin = n.origin
		defer n.origin.Close()
	}
	server := &http.Server{
		Handler:           mirrorrest.New(rest),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(n.cfg.Log.Handler(), slog.LevelDebug),
	}
	group.Go(func() error { return n.ledger.Run(ctx) })
	group.Go(func() error { return n.consensus.Run(ctx) })
	if n.topics != nil {
		group.Go(func() error {
			return mirrorgrpc.New(mirrorgrpc.Config{View: n.MirrorView, Changed: n.ledger.Subscribe}).Run(ctx, n.topics)
		})
	}
	if n.state != nil {
		group.Go(func() error {
			n.state.run(ctx)
			return nil
		})
	}
	group.Go(func() error {
		if err := httpserve.Until(ctx, server, n.mirror, drainTime); err != nil {
			return fmt.Errorf("mirror node: %w", err)
		}
		return nil
	})
	return group.Wait()
}

// Ledger gives tests and tools the state behind the network.
func (n *Network) Ledger() *ledger.Ledger { return n.ledger }

// MirrorView is what the mirror node shows now: the newest block, or with a lag the
// newest one that is old enough.
func (n *Network) MirrorView() *ledger.View {
	if n.cfg.MirrorLag == 0 {
		return n.ledger.View()
	}
	return n.ledger.ViewBehind(n.cfg.MirrorLag)
}

// Mirror returns the base URL of the mirror node.
func (n *Network) Mirror() string { return "http://" + n.mirror.Addr().String() }

// MirrorGRPC returns the address of the mirror node's gRPC API, host:port; empty for none.
func (n *Network) MirrorGRPC() string {
	if n.topics == nil {
		return ""
	}
	return n.topics.Addr().String()
}

// Consensus returns the address of every consensus node, host:port.
func (n *Network) Consensus() []string { return n.consensus.Addrs() }

// Nodes maps the address of every consensus node to its account, the form in which
// clients take a network.
func (n *Network) Nodes() map[string]string { return n.accounts(n.consensus.Addrs()) }

// TLSNodes is Nodes with the addresses that speak TLS; empty without Config.TLS.
func (n *Network) TLSNodes() map[string]string { return n.accounts(n.consensus.TLSAddrs()) }

func (n *Network) accounts(addrs []string) map[string]string {
	nodes := map[string]string{}
	for i, addr := range addrs {
		nodes[addr] = n.consensus.Nodes()[i].Account().String()
	}
	return nodes
}

// CertHashes maps the account of every consensus node to the hexadecimal SHA-384 of its
// certificate in PEM form; empty without Config.TLS.
func (n *Network) CertHashes() map[string]string {
	hashes := map[string]string{}
	for _, node := range n.ledger.View().Nodes() {
		if node.CertHash != "" {
			hashes[node.Account.String()] = node.CertHash
		}
	}
	return hashes
}

// Account is a funded development account, as a start-up message shows it.
type Account struct {
	ID         string `json:"id"`
	Address    string `json:"address"`    // with checksum; long-zero for accounts without alias
	PrivateKey string `json:"privateKey"` // 0x and 64 hexadecimal digits; published and worthless
	KeyType    string `json:"keyType"`    // ECDSA_SECP256K1 or ED25519
	Balance    int64  `json:"balance"`    // at the start, in ℏ
}

// Accounts returns the funded accounts, those an Ethereum wallet can use first.
func (n *Network) Accounts() []Account {
	var wallets, others []Account
	for _, a := range devaccounts.All() {
		account := shown(a)
		if a.EVMAddress() != a.ID.LongZero() {
			wallets = append(wallets, account)
		} else {
			others = append(others, account)
		}
	}
	return append(wallets, others...)
}

// Signers returns the accounts of Config.Signers.
func (n *Network) Signers() []Account {
	var list []Account
	for _, a := range devaccounts.Signers(n.cfg.Signers) {
		list = append(list, shown(a))
	}
	return list
}

func shown(a devaccounts.Account) Account {
	account := Account{
		ID: a.ID.String(), Address: a.EVMAddress().Hex(), PrivateKey: "0x" + a.PrivateKey,
		KeyType: "ECDSA_SECP256K1", Balance: int64(a.Balance / hedera.Hbar),
	}
	if len(a.PublicKey) == 32 {
		account.KeyType = "ED25519"
	}
	return account
}

// OperatorID is the account that pays for a relay's submissions by
// default: the first one with an EVM alias.
func OperatorID() string { return devaccounts.All()[0].ID.String() }

// OperatorKey is the private key of OperatorID, 0x and 64 hexadecimal digits.
func OperatorKey() string { return "0x" + devaccounts.All()[0].PrivateKey }

// openFork finds what a fork begins with; nil where the network is none.
func openFork(ctx context.Context, cfg *Config, accounts []devaccounts.Account) (*upstream.Mirror, *ledger.ForkPoint, error) {
	switch {
	case cfg.Fork.URL == "" && cfg.Fork.Block != nil:
		return nil, nil, errors.New("--fork-block needs --fork-url")
	case cfg.Fork.URL == "":
		return nil, nil, nil
	case cfg.State != "":
		return nil, nil, errors.New("--fork-url and --state: a fork is not saved")
	}
	// Requests go on while a network that ends answers those that it has.
	origin, err := upstream.Open(context.WithoutCancel(ctx), cfg.Fork)
	if err != nil {
		return nil, nil, fmt.Errorf("--fork-url: %w", err)
	}
	point, err := origin.Fork(accounts)
	if err != nil {
		origin.Close()
		return nil, nil, fmt.Errorf("--fork-url: %w", err)
	}
	return origin, point, nil
}

// Origin names the network that this one is a fork of and the newest block that it has of it. ok is false for no fork.
func (n *Network) Origin() (name string, block int64, ok bool) {
	if n.origin == nil {
		return "", 0, false
	}
	block, _ = n.origin.Point()
	return n.origin.Name(), block, true
}
