package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"lockstep/devnet"
	"lockstep/devnet/faults"
	"lockstep/devnet/mirrorrest"
	"lockstep/devnet/node"
	"lockstep/internal/hapi"
)

// conduct is how the network behaves.
type conduct struct {
	Submit delay `json:"submit"` // of a submission at the node
	Mirror delay `json:"mirror"` // of an answer of the mirror node
	Query  delay `json:"query"`  // of a receipt query at the node
	Hold   bool  `json:"hold"`   // keep submissions at the node until it ends
	Busy   bool  `json:"busy"`   // take no submissions
}

// usual is the conduct under load unless a row says otherwise.
func usual() conduct {
	ms := time.Millisecond
	return conduct{Submit: delay{5 * ms, 10 * ms}, Mirror: delay{5 * ms, 10 * ms}, Query: delay{2 * ms, 2 * ms}}
}

// delay is a time drawn evenly between two, in nanoseconds.
type delay [2]time.Duration

func (d delay) draw() time.Duration {
	if d[1] <= d[0] {
		return d[0]
	}
	return d[0] + rand.N(d[1]-d[0])
}

// arrival is a submission as the node saw it.
type arrival struct {
	Sender common.Address `json:"sender"`
	Nonce  uint64         `json:"nonce"`
	At     int64          `json:"at"`   // Unix time in nanoseconds
	Done   int64          `json:"done"` // when its delay was over; 0 = not yet
}

// stage is the network's process: the devnet, its delays and its notes.
type stage struct {
	rules faults.Rules // what is spoiled besides

	mu       sync.Mutex // guards all below
	conduct  conduct
	open     chan struct{} // closed while nothing is held
	arrivals []arrival
}

// networkRole is the main function of the network's process.
func networkRole(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("network", flag.ContinueOnError)
	latency := flags.Duration("consensus-latency", 0, "time from acceptance to consensus")
	nodes := flags.Int("nodes", 1, "consensus nodes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	debug.SetGCPercent(frugal)
	s := &stage{open: make(chan struct{})}
	close(s.open)
	chain, err := devnet.New(ctx, devnet.Config{
		Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", Nodes: *nodes, ConsensusLatency: *latency, History: 1 << 18, Fault: s.fault,
	})
	if err != nil {
		return err
	}
	// The mirror node of the suite is the devnet's behind a delay; the devnet's own port
	// stays unused.
	mirror := mirrorrest.New(mirrorrest.Config{View: chain.MirrorView, Fault: s.rules.Mirror, Log: slog.New(slog.DiscardHandler)})
	mux := http.NewServeMux()
	mux.Handle("/", mirror)
	mux.Handle("/api/", s.slow(mirror))
	mux.Handle("/faults", &s.rules)
	mux.HandleFunc("PUT /suite/conduct", s.setConduct)
	mux.HandleFunc("GET /suite/arrivals", s.listArrivals)
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		chain.Close()
		return err
	}
	return serveChain(ctx, out, chain, l, mux)
}

// serveChain tells that the network is ready and runs it, with its mirror node's front at the
// listener, until ctx ends.
func serveChain(ctx context.Context, out io.Writer, chain *devnet.Network, front net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: startLimit}
	ready := networkReady{Network: true, URL: "http://" + front.Addr().String(), Nodes: chain.Nodes(), Accounts: chain.Accounts()}
	if err := json.NewEncoder(out).Encode(ready); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return chain.Run(ctx) })
	group.Go(func() error {
		if err := server.Serve(front); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	return group.Wait()
}

func mirrorHandler(chain *devnet.Network) http.Handler {
	return mirrorrest.New(mirrorrest.Config{View: chain.MirrorView, Log: slog.New(slog.DiscardHandler)})
}

// networkReady is the line that says where the network is.
type networkReady struct {
	Network bool              `json:"network"`
	URL     string            `json:"url"`
	Nodes   map[string]string `json:"nodes"`

	Accounts []devnet.Account `json:"accounts"`
}

// Which account does what. The operator is the first one.
const (
	funderAccount = 1
	firstSender   = 2
)

// fault delays a call itself, so that it knows when the delay was over.
func (s *stage) fault(c node.Call) node.Fault {
	s.mu.Lock()
	now, open := s.conduct, s.open
	s.mu.Unlock()
	switch {
	case c.Query != nil:
		pause(now.Query.draw())
	case c.Submission != nil && c.Submission.Ethereum != nil:
		tx := c.Submission.Ethereum
		i := s.arrived(arrival{Sender: tx.From(), Nonce: tx.Nonce(), At: time.Now().UnixNano()})
		pause(now.Submit.draw())
		<-open
		s.done(i)
		if now.Busy {
			return node.Fault{Status: hapi.ResponseCodeEnum_BUSY}
		}
		if now.Hold {
			// What is left of the delay lets the node see that the caller is gone.
			return node.Fault{Delay: 2 * time.Millisecond}
		}
	}
	return s.rules.Node(c)
}

func (s *stage) arrived(a arrival) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals = append(s.arrivals, a)
	return len(s.arrivals) - 1
}

func (s *stage) done(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals[i].Done = time.Now().UnixNano()
}

func pause(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

func (s *stage) slow(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		d := s.conduct.Mirror.draw()
		s.mu.Unlock()
		pause(d)
		next.ServeHTTP(w, r)
	})
}

func (s *stage) setConduct(w http.ResponseWriter, r *http.Request) {
	var c conduct
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<12)).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch held := s.conduct.Hold; {
	case c.Hold && !held:
		s.open = make(chan struct{})
	case !c.Hold && held:
		close(s.open)
	}
	s.conduct = c
}

func (s *stage) listArrivals(w http.ResponseWriter, r *http.Request) {
	since, err := strconv.Atoi(r.URL.Query().Get("since"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || since < 0 || since > len(s.arrivals) {
		http.Error(w, "since: want a number of arrivals", http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(append([]arrival{}, s.arrivals[since:]...)) // the suite went away
}

// network is the network's process as the suite sees it.
type network struct {
	*process
	networkReady
	seen int // arrivals before the present run
}

// network starts a network.
func (l *lab) network(ctx context.Context, args ...string) (*network, error) {
	p, err := l.start("network", nil, l.self, append([]string{"network"}, args...)...)
	if err != nil {
		return nil, err
	}
	n := &network{process: p}
	err = p.ready(ctx, func(line []byte) bool {
		return json.Unmarshal(line, &n.networkReady) == nil && n.Network
	})
	if err != nil {
		p.kill()
		return nil, err
	}
	return n, nil
}

// spoil replaces the rules by which calls are spoiled; see package faults.
func (n *network) spoil(ctx context.Context, rules string) error {
	return request(ctx, http.MethodPut, n.URL+"/faults", rules, nil)
}

// behave changes the conduct.
func (n *network) behave(ctx context.Context, c conduct) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return request(ctx, http.MethodPut, n.URL+"/suite/conduct", string(body), nil)
}

// arrivals returns the submissions of the present run so far.
func (n *network) arrivals(ctx context.Context) ([]arrival, error) {
	var list []arrival
	err := request(ctx, http.MethodGet, n.URL+"/suite/arrivals?since="+strconv.Itoa(n.seen), "", &list)
	return list, err
}

// mark starts a run: what has arrived by now does not belong to it.
func (n *network) mark(ctx context.Context) error {
	list, err := n.arrivals(ctx)
	n.seen += len(list)
	return err
}

// request makes a HTTP request and decodes the answer, if into is not nil.
func request(ctx context.Context, method, url, body string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text)
	}
	switch v := into.(type) {
	case nil:
		return nil
	case *string:
		*v = string(text)
		return nil
	default:
		return json.Unmarshal(text, into)
	}
}
