package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"lockstep/devnet"
	"lockstep/devnet/faults"
	"lockstep/devnet/upstream"
)

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
