package consensus

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"lockstep/hedera"
)

const (
	// unhealthyMin and unhealthyMax bound how long a failing node is passed over. It
	// doubles with each failure in a row.
	unhealthyMin = 250 * time.Millisecond
	unhealthyMax = time.Minute

	// connectMinTimeout is how long one attempt to connect may take.
	connectMinTimeout = 5 * time.Second

	// keepaliveAfter and keepaliveTimeout find connections that died silently. Nodes
	// close connections every 15 s anyway; this is for those that do not.
	keepaliveAfter   = 20 * time.Second
	keepaliveTimeout = 5 * time.Second
)

// node is one consensus node: its connection and how it has been doing.
type node struct {
	id      hedera.ID
	seed    uint64 // of the rendezvous hash
	address []string
	secure  bool
	creds   credentials.TransportCredentials

	// retryAt is 0 for a healthy node, else when it may be tried again, in nanoseconds
	// since the Unix epoch.
	retryAt atomic.Int64
	// usedAt is when the node was last called, in the same unit.
	usedAt atomic.Int64

	// lost: unhealthy for lack of a connection. probed: Run looks after the node, so a
	// lost node comes back when there is a connection, not when its time is over.
	lost, probed atomic.Bool

	mu       sync.Mutex // guards all below
	conn     *grpc.ClientConn
	closed   bool
	failures int   // in a row
	lastErr  error // why it is unhealthy
}

func newNode(a NodeAddress, secure bool) *node {
	n := &node{id: a.ID, seed: nodeSeed(a.ID), creds: insecure.NewCredentials()}
	n.address, n.secure = a.dialAddresses(secure)
	if n.secure {
		n.creds = pinnedCredentials(a.ID, a.CertHash)
	}
	return n
}

// connection returns the node's connection, which connects when it is first used.
func (n *node) connection() (*grpc.ClientConn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	if n.conn != nil {
		return n.conn, nil
	}
	addresses := make([]resolver.Address, len(n.address))
	for i, a := range n.address {
		addresses[i] = resolver.Address{Addr: a}
	}
	names := manual.NewBuilderWithScheme("hapi")
	names.InitialState(resolver.State{Addresses: addresses})
	conn, err := grpc.NewClient("hapi:///"+n.id.String(),
		grpc.WithResolvers(names),
		grpc.WithTransportCredentials(n.creds),
		grpc.WithAuthority(n.address[0]),
		grpc.WithUserAgent("lockstep"),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: unhealthyMin, Multiplier: 1.6, Jitter: 0.2, MaxDelay: unhealthyMax},
			MinConnectTimeout: connectMinTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveAfter, Timeout: keepaliveTimeout, PermitWithoutStream: true,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.id, err)
	}
	n.conn = conn
	return conn, nil
}

// ready returns the connection, and gives one that is waiting to reconnect a push
// and a moment: the node was chosen for lack of a better one. Whether it connected is for the call to find out.
func (n *node) ready(ctx context.Context, wake time.Duration) (*grpc.ClientConn, error) {
	conn, err := n.connection()
	if err != nil {
		return nil, err
	}
	n.usedAt.Store(time.Now().UnixNano())
	if conn.GetState() == connectivity.TransientFailure {
		ctx, cancel := context.WithTimeout(ctx, wake)
		defer cancel()
		conn.ResetConnectBackoff()
		conn.WaitForStateChange(ctx, connectivity.TransientFailure)
	}
	return conn, nil
}

// healthy tells whether the node may be chosen freely.
func (n *node) healthy(now time.Time) bool {
	retryAt := n.retryAt.Load()
	if retryAt == 0 {
		return true
	}
	if n.lost.Load() && n.probed.Load() {
		return false
	}
	return retryAt <= now.UnixNano()
}

// failed makes the node unhealthy. lost says that it is the connection that failed.
// Calls that fail together count once.
func (n *node) failed(err error, lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.lost.Store(lost)
	n.lastErr = err
	if n.retryAt.Load() > now.UnixNano() {
		return
	}
	pause := min(unhealthyMax, unhealthyMin<<min(n.failures, 16))
	n.failures++
	n.retryAt.Store(now.Add(pause).UnixNano())
}

// worked makes the node healthy.
func (n *node) worked() {
	if n.retryAt.Load() == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failures, n.lastErr = 0, nil
	n.lost.Store(false)
	n.retryAt.Store(0)
}

func (n *node) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.conn == nil {
		return nil
	}
	conn := n.conn
	n.conn = nil
	return conn.Close()
}
