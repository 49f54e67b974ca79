package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"lockstep/internal/hedera"
)

// Operator is an account that pays for transactions, and its key.
type Operator struct {
	ID  hedera.ID
	Key *hedera.PrivateKey
}

// Client submits transactions to the consensus nodes of one network. It may be
// used from many goroutines.
type Client struct {
	log        *slog.Logger
	nodes      roster
	operators  *operators // none: submissions must name a payer
	paymasters *paymasters
	ids        *idSource
	metrics    *metrics

	attemptTimeout time.Duration
	requestTimeout time.Duration
	maxAttempts    int
	pace           pace

	source ReceiptSource // nil: none

	refresh  time.Duration // how often the address book is fetched; 0: never
	book     AddressBook   // set before Run; nil: none
	outdated chan struct{} // a node denied its account; holds one note
}

// pace is how fast the client tries again. Tests quicken it.
type pace struct {
	retryMin, retryMax time.Duration   // pause after every node has been asked
	wake               time.Duration   // how long a call waits for a node whose last connection failed
	connect            time.Duration   // how long a transaction waits for a connection before it goes to another node
	query              time.Duration   // how long one receipt query may take
	receipt            []time.Duration // pauses before the receipt queries; the last one repeats
	probe              time.Duration   // how often Run looks at the connections
	bookRest           time.Duration   // pause after the address book was fetched
	source             time.Duration   // least time between two questions to the source about one transaction
	restart            time.Duration   // what a node that died needs at least to be back and active
	lost               time.Duration   // how long a transaction waits for one before it that its node has lost
}

var defaultPace = pace{
	retryMin: 250 * time.Millisecond,
	retryMax: 2 * time.Second,
	wake:     time.Second,
	connect:  2 * time.Second,
	query:    2 * time.Second,
	receipt: []time.Duration{
		0, 10 * time.Millisecond, 15 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond,
	},
	probe:    250 * time.Millisecond,
	bookRest: bookRest,
	source:   2 * time.Second,
	restart:  10 * time.Second,
	lost:     5 * time.Second,
}

// New builds a client. It connects to nothing and starts nothing.
func New(cfg Config, log *slog.Logger) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	addresses, err := cfg.network()
	if err != nil {
		return nil, err
	}
	operators, err := cfg.operators()
	if err != nil {
		return nil, err
	}
	paymasters, err := cfg.Payers.paymasters(operators.main())
	if err != nil {
		return nil, err
	}
	c := &Client{
		log:            log,
		operators:      operators,
		paymasters:     paymasters,
		ids:            newIDSource(),
		metrics:        newMetrics(),
		attemptTimeout: cfg.attemptTimeout(),
		requestTimeout: cfg.RequestTimeout.Duration(),
		maxAttempts:    cfg.MaxAttempts,
		pace:           defaultPace,
		outdated:       make(chan struct{}, 1),
	}
	if cfg.named() {
		c.refresh = cfg.BookRefresh.Duration()
	}
	c.nodes.secure, c.nodes.log = cfg.TransportSecurity, log
	if err := c.SetNodes(addresses); err != nil {
		return nil, err
	}
	return c, nil
}

// SetNodes replaces the list of nodes, for example by a newer address book of the
// network. Nodes that are on both lists keep their connections and their health;
// senders whose node stays are not moved. Calls under way on a node that left are
// not disturbed. An empty list is an error and changes nothing.
func (c *Client) SetNodes(addresses []NodeAddress) error {
	if len(addresses) == 0 {
		return errors.New("consensus: an empty list of nodes")
	}
	for _, a := range addresses {
		if len(a.Endpoints) == 0 {
			return fmt.Errorf("consensus: node %s has no endpoint", a.ID)
		}
		for _, endpoint := range a.Endpoints {
			if err := checkEndpoint(endpoint); err != nil {
				return fmt.Errorf("consensus: node %s: %w", a.ID, err)
			}
		}
	}
	joined, left, err := c.nodes.set(addresses)
	if err != nil {
		return err
	}
	for _, n := range joined {
		if n.secure && n.certHash == nil {
			c.log.Warn("TLS to a consensus node without a certificate hash: encrypted but not authenticated", "node", n.id.String())
		}
	}
	for _, n := range left {
		if c.nodes.find(n.id) == nil {
			c.metrics.healthy.DeleteLabelValues(n.id.String())
		}
	}
	return nil
}

// Operator returns the main operator account, and false when none is configured.
func (c *Client) Operator() (hedera.ID, bool) {
	main := c.operators.main()
	if main == nil {
		return hedera.ID{}, false
	}
	return main.ID, true
}

// OperatorPublicKey returns the main operator's public key, or nil when none is configured.
func (c *Client) OperatorPublicKey() []byte {
	main := c.operators.main()
	if main == nil {
		return nil
	}
	return main.Key.Public()
}

// OperatorAddress returns the EVM address of the main operator's key, and false if there
// is no operator or its key has none.
func (c *Client) OperatorAddress() (common.Address, bool) {
	main := c.operators.main()
	if main == nil {
		return common.Address{}, false
	}
	return main.Key.Address()
}

// NodeStatus is how a node is doing.
type NodeStatus struct {
	ID        hedera.ID
	Endpoints []string
	Healthy   bool
	Failures  int   // in a row
	Err       error // why it is unhealthy
}

// Nodes returns the state of every node, in the order of their accounts.
func (c *Client) Nodes() []NodeStatus {
	now := time.Now()
	nodes := c.nodes.all()
	out := make([]NodeStatus, len(nodes))
	for i, n := range nodes {
		out[i] = NodeStatus{ID: n.id, Endpoints: n.address, Healthy: n.healthy(now)}
		n.mu.Lock()
		out[i].Failures, out[i].Err = n.failures, n.lastErr
		n.mu.Unlock()
	}
	return out
}

var errNoConnection = errors.New("cannot connect")

// warmFor is how long after its last call a node's connection is kept open. Nodes
// close connections every few seconds; the next sender should not wait for a new one.
const warmFor = time.Minute

// Run looks after the connections until ctx is done: it reconnects nodes in use
// when they close the connection, brings lost nodes back when they can be reached, so
// that no submission has to find out, and follows the address book. It returns nil.
func (c *Client) Run(ctx context.Context) error {
	c.nodes.probed.Store(true)
	defer c.nodes.probed.Store(false)
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { c.followBook(ctx) })
	tick := time.NewTicker(c.pace.probe)
	defer tick.Stop()
	for {
		now := time.Now()
		for _, n := range c.nodes.all() {
			c.probe(n, now)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (c *Client) probe(n *node, now time.Time) {
	transactions, queries := n.opened()
	warm := now.Sub(time.Unix(0, n.usedAt.Load())) < warmFor
	if transactions != nil {
		c.probeHealth(n, transactions, warm)
	}
	if queries != nil {
		switch queries.GetState() {
		case connectivity.Idle:
			if warm {
				queries.Connect()
			}
		case connectivity.TransientFailure:
			if n.healthy(now) { // then this one can connect too
				queries.ResetConnectBackoff()
			}
		case connectivity.Connecting, connectivity.Ready, connectivity.Shutdown:
		}
	}
	value := 0.0
	if n.healthy(now) {
		value = 1
	} else {
		n.remind()
	}
	c.metrics.healthy.WithLabelValues(n.id.String()).Set(value)
}

// probeHealth draws conclusions from the connection that transactions use.
func (c *Client) probeHealth(n *node, conn *grpc.ClientConn, warm bool) {
	switch conn.GetState() {
	case connectivity.Idle:
		if warm || n.lost.Load() {
			conn.Connect()
		}
	case connectivity.TransientFailure:
		if n.retryAt.Load() == 0 {
			n.failed(errNoConnection, true)
		}
	case connectivity.Ready:
		if n.lost.Load() {
			n.worked()
		}
	case connectivity.Connecting, connectivity.Shutdown:
	}
}

// Close closes all connections. Calls under way end as if their connections had
// been cut. It is idempotent.
func (c *Client) Close() error { return c.nodes.close() }
