package consensus

import (
	"bytes"
	"context"
	"crypto/sha512"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
	"google.golang.org/protobuf/proto"

	"lockstep/internal/hedera"
	"lockstep/internal/outage"
)

// connectMinTimeout is how long one attempt to connect may take. Tests, whose machines stand still at times, have more.
var connectMinTimeout = 5 * time.Second

const (
	// unhealthyMin and unhealthyMax bound how long a failing node is passed over. It
	// doubles with each failure in a row.
	unhealthyMin = 250 * time.Millisecond
	unhealthyMax = time.Minute

	// keepaliveAfter and keepaliveTimeout find connections that died silently. Nodes
	// close connections every 15 s anyway; this is for those that do not.
	keepaliveAfter   = 20 * time.Second
	keepaliveTimeout = 5 * time.Second
)

// purpose tells the connections to a node apart. Nodes allow few calls at a time on
// one connection, and a submission must not wait for receipt queries.
type purpose int

const (
	forTransactions purpose = iota
	forQueries
	purposes
)

// node is one consensus node: its connection and how it has been doing.
type node struct {
	id      hedera.ID
	seed    uint64 // of the rendezvous hash
	address []string
	secure  bool
	creds   credentials.TransportCredentials

	certHash []byte // of the address book, or nil

	// retryAt is 0 for a healthy node, else when it may be tried again, in nanoseconds
	// since the Unix epoch.
	retryAt atomic.Int64
	// usedAt is when the node was last called, in the same unit.
	usedAt atomic.Int64
	// connectedAt is when the newest connection for transactions was established, in the same unit; 0: never.
	connectedAt atomic.Int64

	// lost: unhealthy for lack of a connection. probed, shared by all nodes: Run looks
	// after them, so a lost node comes back when there is a connection, not when its
	// time is over.
	lost   atomic.Bool
	probed *atomic.Bool

	outage outage.Log

	mu       sync.Mutex // guards all below
	conns    [purposes]*grpc.ClientConn
	closed   bool
	failures int   // in a row
	lastErr  error // why it is unhealthy
}

func newNode(a NodeAddress, secure bool, probed *atomic.Bool, log *slog.Logger) *node {
	n := &node{id: a.ID, seed: nodeSeed(a.ID), creds: insecure.NewCredentials(), certHash: a.CertHash, probed: probed}
	n.address, n.secure = a.dialAddresses(secure)
	if n.secure {
		n.creds = pinnedCredentials(a.ID, a.CertHash, log)
	}
	n.outage.Logger, n.outage.Upstream, n.outage.Name = log, "node", a.ID.String()
	n.outage.Level, n.outage.Consequence = slog.LevelWarn, "its senders' transactions go to other nodes; if there is none, they fail"
	return n
}

// connection returns one of the node's connections, which connects when it is
// first used.
func (n *node) connection(what purpose) (*grpc.ClientConn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	if n.conns[what] == nil {
		conn, err := n.dial(what)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.id, err)
		}
		n.conns[what] = conn
	}
	return n.conns[what], nil
}

func (n *node) dial(what purpose) (*grpc.ClientConn, error) {
	creds := n.creds
	if what == forTransactions {
		creds = noted{n.creds, &n.connectedAt}
	}
	addresses := make([]resolver.Address, len(n.address))
	for i, a := range n.address {
		addresses[i] = resolver.Address{Addr: a}
	}
	names := manual.NewBuilderWithScheme("hapi")
	names.InitialState(resolver.State{Addresses: addresses})
	return grpc.NewClient("hapi:///"+n.id.String(),
		grpc.WithResolvers(names),
		grpc.WithTransportCredentials(creds),
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
}

// noted notes when connections are established.
type noted struct {
	credentials.TransportCredentials
	at *atomic.Int64 // nanoseconds since the Unix epoch
}

// ClientHandshake implements credentials.TransportCredentials.
func (c noted) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err == nil {
		c.at.Store(time.Now().UnixNano())
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (c noted) Clone() credentials.TransportCredentials {
	return noted{c.TransportCredentials.Clone(), c.at}
}

// opened returns the connections, each nil until it is first used.
func (n *node) opened() (transactions, queries *grpc.ClientConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.conns[forTransactions], n.conns[forQueries]
}

// ready returns the connection, and gives one that is waiting to reconnect a push
// and a moment: the node was chosen for lack of a better one. Whether it connected is for the call to find out.
func (n *node) ready(ctx context.Context, what purpose, wake time.Duration) (*grpc.ClientConn, error) {
	conn, err := n.connection(what)
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

// connected returns a connection once it is established, or after a moment, in which other nodes
// would have answered, an error. The connection goes on being made all the same.
func (n *node) connected(ctx context.Context, what purpose, pace pace) (*grpc.ClientConn, error) {
	conn, err := n.ready(ctx, what, pace.wake)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, pace.connect)
	defer cancel()
	for state := conn.GetState(); state == connectivity.Idle || state == connectivity.Connecting; state = conn.GetState() {
		conn.Connect()
		if !conn.WaitForStateChange(waiting, state) {
			return nil, fmt.Errorf("node %s: %w within %v", n.id, errNoConnection, pace.connect)
		}
	}
	return conn, nil // the call finds out why, if there is none
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
	n.outage.Down(context.Background(), err) //nolint:forbidigo // the line belongs to no request
	if n.retryAt.Load() > now.UnixNano() {
		return
	}
	pause := min(unhealthyMax, unhealthyMin<<min(n.failures, 16))
	n.failures++
	n.retryAt.Store(now.Add(pause).UnixNano())
}

// remind has the log told of an outage whose line was held back.
func (n *node) remind() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lastErr != nil {
		n.outage.Down(context.Background(), n.lastErr) //nolint:forbidigo // see failed
	}
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
	n.outage.Up(context.Background()) //nolint:forbidigo // see failed
}

// close closes the connections. It is idempotent.
func (n *node) close() error {
	n.mu.Lock()
	conns := n.conns
	n.conns, n.closed = [purposes]*grpc.ClientConn{}, true
	n.mu.Unlock()
	var errs []error
	for _, conn := range conns {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	return errors.Join(errs...)
}

// unsentError is a call whose message was not handed to a connection.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

func provablyUnsent(err error) bool {
	var unsent *unsentError
	return errors.As(err, &unsent)
}

// call makes one unary call. The stream is opened first, which may mean waiting
// for a connection; then leaving, if any, is called for the last look; then the request
// is written. An error before that point is an *unsentError.
//
// The buffer size of 0 makes gRPC commit to the stream once the message is written:
// otherwise it would by itself write the message again on another connection when
// the server refuses the stream, at a time when the last look no longer holds.
func call(ctx context.Context, conn *grpc.ClientConn, method string, request proto.Message, leaving func() error, response proto.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream on every path
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{}, method, grpc.MaxRetryRPCBufferSize(0))
	if err != nil {
		return &unsentError{err}
	}
	if leaving != nil {
		if err := leaving(); err != nil {
			return &unsentError{err}
		}
	}
	// From here on the message may be on its way: SendMsg reports only what went wrong
	// before the transport had it; a broken stream shows in RecvMsg.
	if err := stream.SendMsg(request); err != nil {
		return &unsentError{err}
	}
	return stream.RecvMsg(response)
}

// pinnedCredentials is TLS to a node. Nodes sign their own certificates, so there
// is no chain to check: the network's address book has the SHA-384 of the
// certificate in PEM form, and that is compared. Without a hash any certificate is
// taken: the connection is encrypted, but who is at its end is not known.
//
// A certificate that is not the one is logged once: the client is told no more than that
// no node could be reached.
func pinnedCredentials(id hedera.ID, hash []byte, log *slog.Logger) credentials.TransportCredentials {
	var once sync.Once
	return credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // replaced by VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			if hash == nil {
				return nil
			}
			err := verifyCertHash(id, state, hash)
			if err != nil {
				once.Do(func() {
					log.Warn("a consensus node is not trusted and nothing is sent to it", "node", id.String(), "error", err)
				})
			}
			return err
		},
	})
}

func verifyCertHash(id hedera.ID, state tls.ConnectionState, want []byte) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the node showed no certificate")
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: state.PeerCertificates[0].Raw})
	if got := sha512.Sum384(text); !bytes.Equal(got[:], want) {
		return fmt.Errorf("the certificate of node %s has SHA-384 %s, not the one in the address book",
			id, hex.EncodeToString(got[:]))
	}
	return nil
}
