package node

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/facts"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// portStride lies between the ports of the nodes of one network. It is not 1, since
// clients take the port after the first for one that speaks TLS.
const portStride = 10

const (
	maxMessage     = 4 << 20 // bytes, both ways
	minPingGap     = 5 * time.Second
	firstNode      = 3 // 0.0.3 is the account of node 0
	drainTime      = 2 * time.Second
	headerLimit    = 16 << 10
	maxConcurrency = 1000 // calls in flight per connection
)

// Config shapes a network of consensus nodes.
type Config struct {
	Ledger *ledger.Ledger
	Nodes  int    // how many; 1 when 0
	Listen string // host:port of node 0; the others follow at every tenth port. Port 0 picks free ones.

	// Latency is how long a transaction takes from acceptance to consensus, and
	// Jitter the most that chance adds to it. Transactions given to one node keep
	// their order; those given to different nodes may change it. With neither, a
	// transaction is handled before its submission is answered.
	Latency, Jitter time.Duration

	// Seed makes the jitter repeatable; 0 picks one.
	Seed uint64

	// TLS makes every node listen for TLS as well, at the port after its own (any free one
	// if its own is one), with a certificate whose hash is in the address book.
	TLS bool

	// Fault, where set, is asked about every accepted call and may spoil it.
	Fault func(Call) Fault

	Log *slog.Logger
}

// NodeAccounts returns the accounts of the first n nodes: 0.0.3, 0.0.4, …
func NodeAccounts(n int) []hedera.ID {
	ids := make([]hedera.ID, n)
	for i := range ids {
		ids[i] = hedera.Entity(firstNode + int64(i))
	}
	return ids
}

// Network is one or more consensus nodes over one ledger.
type Network struct {
	cfg    Config
	nodes  []*Node
	gossip *gossip
}

// New makes the nodes. It opens no socket.
func New(cfg Config) (*Network, error) {
	cfg.Nodes = cmp.Or(cfg.Nodes, 1)
	if cfg.Ledger == nil || cfg.Nodes < 1 || cfg.Latency < 0 || cfg.Jitter < 0 {
		return nil, errors.New("node: a ledger, at least one node and no negative latency are needed")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	n := &Network{cfg: cfg, gossip: newGossip(cfg)}
	for i, account := range NodeAccounts(cfg.Nodes) {
		node := &Node{
			index: i, account: account, ledger: cfg.Ledger, gossip: n.gossip,
			fault: cfg.Fault, seen: newSeen(), log: cfg.Log,
		}
		node.acceptor = &acceptor{build: node.server}
		if cfg.TLS {
			var err error
			if node.certificate, err = newCertificate(account); err != nil {
				return nil, err
			}
		}
		n.nodes = append(n.nodes, node)
	}
	return n, nil
}

// Nodes returns the nodes, for use without sockets.
func (n *Network) Nodes() []*Node { return n.nodes }

// Listen opens the sockets and enters them in the ledger's address book.
func (n *Network) Listen(ctx context.Context) error {
	host, port, err := net.SplitHostPort(n.cfg.Listen)
	if err != nil {
		return fmt.Errorf("consensus address %q: %w", n.cfg.Listen, err)
	}
	first, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("consensus address %q: the port is no number", n.cfg.Listen)
	}
	infos := make([]ledger.NodeInfo, 0, len(n.nodes))
	for i, node := range n.nodes {
		at := uint64(0)
		if first != 0 {
			at = first + uint64(portStride*i)
		}
		if err := node.listen(ctx, host, at); err != nil {
			n.Close()
			return fmt.Errorf("consensus node %s: %w", node.account, err)
		}
		infos = append(infos, node.info())
	}
	n.cfg.Ledger.SetNodes(infos)
	return nil
}

// listen opens the node's sockets; port 0 is any free one.
func (n *Node) listen(ctx context.Context, host string, port uint64) error {
	open := func(port uint64) (net.Listener, error) {
		var lc net.ListenConfig
		return lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.FormatUint(port, 10)))
	}
	plain, err := open(port)
	if err != nil {
		return err
	}
	n.acceptor.listeners = append(n.acceptor.listeners, plain)
	if n.certificate == nil {
		return nil
	}
	if port != 0 {
		port++
	}
	encrypted, err := open(port)
	if err != nil {
		return err
	}
	n.acceptor.listeners = append(n.acceptor.listeners, n.certificate.listen(encrypted))
	return nil
}

// info is the node's entry in the address book.
func (n *Node) info() ledger.NodeInfo {
	info := ledger.NodeInfo{NodeID: int64(n.index), Account: n.account}
	for i, l := range n.acceptor.listeners {
		bound, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			continue
		}
		ip := bound.IP
		if ip.IsUnspecified() { // clients cannot connect to "everywhere"
			ip = net.IPv4(127, 0, 0, 1)
		}
		if i == 0 {
			info.Host, info.Port = ip.String(), bound.Port
		} else {
			info.TLSPort, info.CertHash = bound.Port, n.certificate.hash
		}
	}
	return info
}

// Addrs returns the bound addresses by node, host:port each; nil before Listen.
func (n *Network) Addrs() []string { return n.addrs(0) }

// TLSAddrs returns the addresses that speak TLS by node; none without Config.TLS.
func (n *Network) TLSAddrs() []string { return n.addrs(1) }

func (n *Network) addrs(listener int) []string {
	addrs := make([]string, 0, len(n.nodes))
	for _, node := range n.nodes {
		if listener < len(node.acceptor.listeners) {
			addrs = append(addrs, node.acceptor.listeners[listener].Addr().String())
		}
	}
	return addrs
}

// Close closes sockets that Run never served.
func (n *Network) Close() {
	for _, node := range n.nodes {
		for _, l := range node.acceptor.listeners {
			// A socket that Run has served is closed already; there is nothing to do about either.
			_ = l.Close()
		}
		node.acceptor.listeners = nil
	}
}

// Run serves the nodes and brings accepted transactions to consensus until the
// context ends. Transactions that have not reached consensus then are lost, as they
// are when a real node stops.
func (n *Network) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.gossip.run(ctx) })
	for _, node := range n.nodes {
		group.Go(func() error {
			if len(node.acceptor.listeners) == 0 {
				return nil
			}
			if err := node.acceptor.run(ctx); err != nil {
				return fmt.Errorf("consensus node %s: %w", node.account, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// stop lets calls end, for a while.
func stop(server *grpc.Server) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.GracefulStop()
	}()
	select {
	case <-ended:
	case <-time.After(drainTime):
		server.Stop()
		<-ended
	}
}

func (n *Node) server() *grpc.Server {
	return grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxHeaderListSize(headerLimit),
		grpc.MaxConcurrentStreams(maxConcurrency),
		// SDKs ping as often as every ten seconds, between calls as well.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingGap, PermitWithoutStream: true}),
		grpc.UnknownServiceHandler(n.serve),
	)
}

// acceptor serves the connections of one node. Its gRPC server can be replaced while calls are
// under way: the old one says goodbye on its connections (HTTP/2 GOAWAY), finishes the
// calls it has, and gets no new ones. That is what a real node does every few seconds.
type acceptor struct {
	listeners []net.Listener
	build     func() *grpc.Server
	wg        sync.WaitGroup

	mu      sync.Mutex // guards all below
	current *generation
	all     []*generation // that have not ended
	ended   bool
}

// generation is one gRPC server and the connections that are for it. To the server it
// is a listener.
type generation struct {
	server *grpc.Server
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (g *generation) Accept() (net.Conn, error) {
	select {
	case conn := <-g.conns:
		return conn, nil
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

func (g *generation) Close() error {
	g.once.Do(func() { close(g.closed) })
	return nil
}

func (g *generation) Addr() net.Addr { return g.addr }

// renew starts a new generation. f.mu must be held.
func (f *acceptor) renew() {
	g := &generation{server: f.build(), addr: f.listeners[0].Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	f.current, f.all = g, append(f.all, g)
	f.wg.Go(func() { _ = g.server.Serve(g) }) // ends when the generation does
}

// goAway sends every client of the node away: their connections take no new calls, and
// new connections are served.
func (f *acceptor) goAway() {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.current
	if old == nil || f.ended {
		return
	}
	f.renew()
	f.wg.Go(func() {
		old.server.GracefulStop()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all = slices.DeleteFunc(f.all, func(g *generation) bool { return g == old })
	})
}

// run serves until ctx ends or a listener fails.
func (f *acceptor) run(ctx context.Context) error {
	f.mu.Lock()
	f.renew()
	f.mu.Unlock()
	failed := make(chan error, len(f.listeners))
	for _, l := range f.listeners {
		f.wg.Go(func() { failed <- f.accept(l) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	f.mu.Lock()
	f.ended = true
	remaining := slices.Clone(f.all)
	f.mu.Unlock()
	for _, l := range f.listeners {
		_ = l.Close() // accept ends
	}
	for _, g := range remaining {
		f.wg.Go(func() { stop(g.server) })
	}
	f.wg.Wait()
	return err
}

// accept gives the connections of a listener to the newest generation.
func (f *acceptor) accept(l net.Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() {
				time.Sleep(acceptPause) //nolint:forbidigo // out of file descriptors: nothing to wait for
				continue
			}
			return err
		}
		f.deliver(conn)
	}
}

const acceptPause = 10 * time.Millisecond

func (f *acceptor) deliver(conn net.Conn) {
	for {
		f.mu.Lock()
		g, ended := f.current, f.ended
		f.mu.Unlock()
		if ended {
			_ = conn.Close()
			return
		}
		select {
		case g.conns <- conn:
			return
		case <-g.closed:
		}
	}
}

// certificate is what a node shows to clients that speak TLS. As on the real network it is
// signed by nobody but itself; what makes it trustworthy is its hash in the address book.
type certificate struct {
	tls  tls.Certificate
	hash string // hexadecimal SHA-384 of its PEM form
}

// newCertificate makes a key and a certificate for a node at an address. SDKs connect to
// the name or address 127.0.0.1, whatever the node's own is.
func newCertificate(account hedera.ID) (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of node %s: %w", account, err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(account.Num),
		Subject:      pkix.Name{CommonName: account.String()},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(10, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:         true, BasicConstraintsValid: true,
		DNSNames:    []string{"localhost", "127.0.0.1"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate of node %s: %w", account, err)
	}
	hash := sha512.Sum384(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return &certificate{
		tls:  tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		hash: hex.EncodeToString(hash[:]),
	}, nil
}

// listen wraps a listener so that its connections speak TLS.
func (c *certificate) listen(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{c.tls}, NextProtos: []string{"h2"},
	})
}

var transactionMethods = []string{
	hapi.MethodCreateAccount, hapi.MethodUpdateAccount, hapi.MethodCryptoTransfer, hapi.MethodCryptoDelete,
	hapi.MethodCallEthereum, hapi.MethodCreateContract, hapi.MethodContractCall,
	hapi.MethodUpdateContract, hapi.MethodDeleteContract, hapi.MethodPrng, hapi.MethodAtomicBatch,
	hapi.MethodCreateTopic, hapi.MethodUpdateTopic, hapi.MethodDeleteTopic, hapi.MethodSubmitMessage,
	hapi.MethodCreateSchedule, hapi.MethodSignSchedule, hapi.MethodDeleteSchedule,
	hapi.MethodApproveAllowances, hapi.MethodDeleteAllowances,
	hapi.MethodCreateToken, hapi.MethodUpdateToken, hapi.MethodMintToken, hapi.MethodBurnToken, hapi.MethodDeleteToken,
	hapi.MethodWipeTokenAccount, hapi.MethodFreezeTokenAccount, hapi.MethodUnfreezeTokenAccount,
	hapi.MethodGrantKyc, hapi.MethodRevokeKyc, hapi.MethodAssociateTokens, hapi.MethodDissociateTokens,
	hapi.MethodUpdateTokenFeeSchedule, hapi.MethodPauseToken, hapi.MethodUnpauseToken, hapi.MethodUpdateNfts,
	hapi.MethodAirdropTokens, hapi.MethodClaimAirdrop, hapi.MethodCancelAirdrop, hapi.MethodRejectToken,
	hapi.MethodCreateFile, hapi.MethodUpdateFile, hapi.MethodDeleteFile, hapi.MethodAppendContent,
}

var queryMethods = []string{
	hapi.MethodCryptoGetBalance, hapi.MethodGetAccountInfo,
	hapi.MethodGetTransactionReceipts, hapi.MethodGetTxRecordByTxID,
	hapi.MethodContractCallLocal, hapi.MethodContractGetBytecode, hapi.MethodGetContractInfo,
	hapi.MethodGetTopicInfo, hapi.MethodGetScheduleInfo,
	hapi.MethodGetTokenInfo, hapi.MethodGetTokenNftInfo, hapi.MethodGetAccountDetails,
	hapi.MethodGetFileContent, hapi.MethodGetFileInfo, hapi.MethodGetVersionInfo,
}

// serve answers a call of any method. What it does is decided by its message, not by the method that it came through. A
// transaction of a kind that this network does not have is refused the way a node does it, anything else as gRPC does.
func (n *Node) serve(_ any, stream grpc.ServerStream) (err error) {
	defer n.contain(&err)
	path, _ := grpc.MethodFromServerStream(stream)
	_, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case slices.Contains(transactionMethods, path):
		return answer(stream, n.Submit)
	case slices.Contains(queryMethods, path):
		return answer(stream, n.Query)
	case !strings.HasPrefix(path, "/proto.") || strings.HasPrefix(strings.ToLower(method), "get"):
		return status.Errorf(codes.Unimplemented, "unknown method %s", path)
	default:
		return answer(stream, func(context.Context, *hapi.Transaction) (*hapi.TransactionResponse, error) {
			return &hapi.TransactionResponse{NodeTransactionPrecheckCode: hapi.ResponseCodeEnum_NOT_SUPPORTED}, nil
		})
	}
}

// answer reads the only message of a call and sends what answers it.
func answer[Q, A any](stream grpc.ServerStream, by func(context.Context, *Q) (*A, error)) error {
	asked := new(Q)
	if err := stream.RecvMsg(asked); err != nil {
		return err
	}
	answered, err := by(stream.Context(), asked)
	if err != nil {
		return err
	}
	return stream.SendMsg(answered)
}

// contain turns a panic, which is a bug here, into the failure of one call.
func (n *Node) contain(err *error) {
	if p := recover(); p != nil {
		if failed, ok := p.(*facts.UpstreamError); ok {
			*err = status.Error(codes.Unavailable, failed.Error())
			return
		}
		n.log.Error("panic while a call was answered", "node", n.account.String(), "panic", p, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error")
	}
}
