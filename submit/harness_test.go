package submit_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/redis/go-redis/v9"

	"lockstep/consensus"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/limit"
	"lockstep/internal/relay/pending"
	"lockstep/lock"
	"lockstep/precheck"
	"lockstep/submit"
)

var (
	chainID  = big.NewInt(298)
	price    = big.NewInt(710_000_000_000)
	receiver = common.HexToAddress("0x05FbA803Be258049A27B820088bab1cAD2058871")
)

// network is a consensus network and its mirror node as the submitter sees them.
// It keeps nonces as the real one does. Its hooks make it misbehave; a nil hook
// does nothing.
type network struct {
	mu       sync.Mutex
	nonces   map[common.Address]uint64
	arrived  []uint64 // nonces in the order in which nodes took them
	attempts int      // submissions seen, taken or not
	awaited  []hedera.TransactionID

	balance   hedera.Tinybar
	unknown   bool         // the mirror node knows no account
	unaware   bool         // … or no balance
	mirrorErr error        // what every look-up fails with
	looked    atomic.Int64 // look-ups that have been answered
	// shows is the nonce that the mirror node, which lags, shows for the right one; nil: it does not lag.
	shows func(nonce uint64) uint64
	// mirror delays every look-up of an account until it is closed, if there is one.
	mirror chan struct{}
	// before runs ahead of every submission; an error is what Submit returns, and
	// apply says whether the transaction took effect all the same.
	before func(n uint64, s consensus.Submission) (apply bool, err error)
	// hang is called ahead of before, and may take its time; an error is what Submit returns.
	hang func(ctx context.Context, n uint64) error
	// verdict replaces the status of a receipt.
	verdict func(nonce uint64) (hedera.Status, error)
	// record is what the mirror node's record says of a transaction; nil: of none that it ran.
	record func(id hedera.TransactionID) (submit.Record, error)
	// vanish tells which transactions are accepted and never reach consensus.
	vanish func(nonce uint64) bool
	// late replaces transactions that are executed late.
	late func(nonce uint64) *lateReceipt
	// asked answers whether there is a receipt.
	asked func(nonce uint64) (bool, error)
	// denied is closed if the node says that it never heard of what it accepted; nil: it does not.
	denied chan struct{}
	// again is asked whether a node took a transaction that was offered once more.
	again func(s consensus.Submission, p submit.Pending) bool
	// knows answers whether a node has heard of a transaction; nil: it gives no answer.
	knows func(id hedera.TransactionID) (bool, error)
	// delay is the time to every receipt.
	delay time.Duration
	// hold delays every receipt until it is closed.
	hold chan struct{}
}

func newNetwork() *network {
	return &network{nonces: map[common.Address]uint64{}, balance: 1000 * hedera.Hbar}
}

// Submit implements submit.Nodes.
func (n *network) Submit(ctx context.Context, s consensus.Submission) (submit.Pending, error) {
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(s.Ethereum); err != nil {
		return nil, &consensus.NotSentError{Err: err}
	}
	if s.BeforeSend != nil {
		if err := s.BeforeSend(); err != nil {
			return nil, &consensus.NotSentError{Err: err}
		}
	}
	if n.hang != nil {
		if err := n.hang(ctx, tx.Nonce()); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attempts++
	if s.Offered != nil {
		s.Offered(hedera.Entity(3), transactionID(n.attempts))
	}
	if n.late != nil {
		if p := n.late(tx.Nonce()); p != nil {
			p.submission = submission{network: n, id: transactionID(n.attempts), nonce: tx.Nonce()}
			return p, nil
		}
	}
	if n.vanish != nil && n.vanish(tx.Nonce()) {
		n.arrived = append(n.arrived, tx.Nonce())
		return &submission{network: n, id: transactionID(n.attempts), nonce: tx.Nonce()}, nil
	}
	apply, err := true, error(nil)
	if n.before != nil {
		apply, err = n.before(tx.Nonce(), s)
	}
	var perhaps *hangs
	if errors.As(err, &perhaps) {
		return perhaps.pending, err
	}
	if !apply {
		return nil, err
	}
	p := &submission{network: n, id: transactionID(n.attempts), nonce: tx.Nonce(), status: n.execute(s.Sender, tx.Nonce())}
	if err != nil {
		return nil, err
	}
	return p, ctx.Err()
}

func (n *network) execute(sender common.Address, nonce uint64) hedera.Status {
	n.arrived = append(n.arrived, nonce)
	status := hapi.ResponseCodeEnum_SUCCESS
	if n.verdict != nil {
		if s, err := n.verdict(nonce); err == nil {
			status = s
		}
	}
	if nonce != n.nonces[sender] {
		return hapi.ResponseCodeEnum_WRONG_NONCE
	}
	if status == hapi.ResponseCodeEnum_SUCCESS || status == hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED {
		n.nonces[sender]++
	}
	return status
}

// Await implements submit.Nodes.
func (n *network) Await(_ context.Context, id hedera.TransactionID, _ hedera.ID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.awaited = append(n.awaited, id)
	return nil
}

// Knows implements submit.Nodes.
func (n *network) Knows(_ context.Context, id hedera.TransactionID, _ hedera.ID) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.knows == nil {
		return false, errors.New("no answer")
	}
	return n.knows(id)
}

// OfferAgain implements submit.Nodes.
func (n *network) OfferAgain(_ context.Context, s consensus.Submission, p submit.Pending) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.again != nil && n.again(s, p)
}

// Account implements submit.Chain.
func (n *network) Account(_ context.Context, a common.Address) (submit.Account, bool, error) {
	if n.mirror != nil {
		<-n.mirror
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mirrorErr != nil {
		return submit.Account{}, false, n.mirrorErr
	}
	n.looked.Add(1)
	nonce := n.nonces[a]
	if n.shows != nil {
		nonce = n.shows(nonce)
	}
	return submit.Account{Nonce: nonce, Balance: n.balance, BalanceUnknown: n.unaware}, !n.unknown, nil
}

// GasPrice implements submit.Chain.
func (n *network) GasPrice(context.Context) (*big.Int, error) { return new(big.Int).Set(price), nil }

// Record implements submit.Chain.
func (n *network) Record(_ context.Context, id hedera.TransactionID) (submit.Record, error) {
	if n.record == nil {
		return submit.RecordRefused, nil
	}
	return n.record(id)
}

// Changed implements submit.Chain.
func (n *network) Changed(common.Address) {}

func (n *network) order() []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]uint64(nil), n.arrived...)
}

type submission struct {
	network *network
	id      hedera.TransactionID
	nonce   uint64
	status  hedera.Status
}

func (p *submission) ID() hedera.TransactionID { return p.id }
func (p *submission) Node() hedera.ID          { return hedera.Entity(3) }

// Ask implements submit.Pending.
func (p *submission) Ask(context.Context) (bool, error) {
	p.network.mu.Lock()
	asked := p.network.asked
	p.network.mu.Unlock()
	if asked != nil {
		return asked(p.nonce)
	}
	return p.status != 0, nil
}

// Denied implements submit.Pending.
func (p *submission) Denied() <-chan struct{} { return p.network.denied }

func (p *submission) Receipt(ctx context.Context) (consensus.Receipt, error) {
	if p.status == 0 { // consensus never saw it
		<-ctx.Done()
		return consensus.Receipt{}, ctx.Err()
	}
	if p.network.delay > 0 {
		select {
		case <-time.After(p.network.delay):
		case <-ctx.Done():
			return consensus.Receipt{}, ctx.Err()
		}
	}
	if p.network.hold != nil {
		select {
		case <-p.network.hold:
		case <-ctx.Done():
			return consensus.Receipt{}, ctx.Err()
		}
	}
	if p.network.verdict != nil {
		if _, err := p.network.verdict(p.nonce); err != nil {
			return consensus.Receipt{}, err
		}
	}
	return consensus.Receipt{TransactionID: p.id, Status: p.status}, nil
}

func transactionID(n int) hedera.TransactionID {
	return hedera.TransactionID{Payer: hedera.Entity(2), ValidStart: hedera.Timestamp{Seconds: 946_684_800, Nanos: int32(n)}}
}

// options change the settings of a test's submitter.
type options struct {
	submit   submit.Config
	lock     lock.Config
	redis    redis.UniversalClient // nil: none
	chain    submit.Chain
	pool     submit.Pool
	promises submit.Promises
	trace    submit.Trace
	budget   *limit.Budget
	nonces   *limit.WrongNonces
	files    submit.Files

	clientIP func(context.Context) string

	waitTime time.Duration
	locked   func(*lock.Service) // nil: nobody wants it
}

// newSubmitter makes a submitter. Tests that have no real network call it in a bubble of synctest, so that no limit
// of the lock ends because the machine is slow.
func newSubmitter(t *testing.T, n *network, change func(*options)) *submit.Submitter {
	t.Helper()
	o := options{
		submit: submit.Config{Returns: submit.ReturnsConsensus, MaxInProgress: 4096},
		lock:   lock.DefaultConfig(),
	}
	o.chain, o.waitTime = n, 30*time.Second
	o.pool, o.promises, o.trace, o.budget = pending.Disabled(nil), pending.NoPromises(), lifecycle.Disabled(), unlimited(t)
	o.clientIP = func(context.Context) string { return "" }
	o.nonces = limit.NewWrongNonces(limit.Config{}, nil)
	if change != nil {
		change(&o)
	}
	log := slog.New(slog.DiscardHandler)
	locks := must.Get(lock.New(o.lock, lock.Deps{Redis: o.redis, Log: log}))(t)
	if o.locked != nil {
		o.locked(locks)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- locks.Run(ctx) }()
	s := must.Get(submit.New(o.submit, submit.Deps{
		Rules: precheck.Rules{ChainID: 298, Config: precheck.Config{
			CallDataSizeLimit: 131072, TransactionSizeLimit: 133120, MaxGasLimit: 15_000_000, GasPriceTolerance: 10_000_000_000,
			Jumbo: o.files == nil, FileChunkSize: 5120, FileMaxChunks: 20,
		}},
		Locks: locks, Ordering: o.lock, Nodes: n, Chain: o.chain, Pool: o.pool, Promises: o.promises, Trace: o.trace, Files: o.files, Budget: o.budget, Nonces: o.nonces,
		Subsidy: func(*common.Address) (consensus.Subsidy, bool) { return consensus.Subsidy{}, false }, Log: log, WaitTime: o.waitTime,
		Charged: submit.TellNobody, Asker: func(ctx context.Context) submit.Asker { return submit.Asker{IP: o.clientIP(ctx)} },
	}))(t)
	t.Cleanup(func() {
		if left := s.Drain(context.Background()); left != 0 {
			t.Errorf("%d transactions left after the drain", left)
		}
		cancel()
		<-stopped
	})
	return s
}

// unlimited is a budget that limits nothing.
func unlimited(t *testing.T) *limit.Budget {
	t.Helper()
	budget := must.Get(limit.New(limit.Config{}, limit.Deps{}))(t)
	return budget
}

func senderOf(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key := must.Get(crypto.GenerateKey())(t)
	return key
}

// transfer signs a transfer of one tinybar with a nonce.
func transfer(t *testing.T, key *ecdsa.PrivateKey, nonce uint64) []byte {
	t.Helper()
	raw := must.Get(types.MustSignNewTx(key, types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
		ChainID: chainID, Nonce: nonce, Gas: 21000, GasFeeCap: price, To: &receiver, Value: big.NewInt(1e10),
	}).MarshalBinary())(t)
	return raw
}

// behind is a mirror node that shows a nonce until some time has passed.
func behind(nonce uint64, until time.Duration) func(uint64) uint64 {
	end := time.Now().Add(until)
	return func(real uint64) uint64 {
		if time.Now().Before(end) {
			return nonce
		}
		return real
	}
}

// change changes something of the network while it is in use.
func (n *network) change(what func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	what()
}

// bubble is a subtest in fake time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// enter gives a transfer its place in line.
func enter(t *testing.T, s *submit.Submitter, key *ecdsa.PrivateKey, nonce uint64) *submit.Entry {
	t.Helper()
	entry := must.Get(s.Enter(transfer(t, key, nonce)))(t)
	return entry
}

// enterAll gives transfers their places, in this order.
func enterAll(t *testing.T, s *submit.Submitter, key *ecdsa.PrivateKey, nonces ...uint64) (entries []*submit.Entry) {
	t.Helper()
	for _, nonce := range nonces {
		entries = append(entries, enter(t, s, key, nonce))
	}
	return entries
}

// sendAll gives transfers their places, in this order, and lets them go, the last first. The results come as they are there.
func sendAll(t *testing.T, s *submit.Submitter, key *ecdsa.PrivateKey, nonces ...uint64) <-chan submit.Result {
	t.Helper()
	entries := enterAll(t, s, key, nonces...)
	results := make(chan submit.Result, len(nonces))
	for _, entry := range slices.Backward(entries) {
		go func() { results <- entry.Finish(t.Context()) }()
	}
	return results
}

// upTo are the nonces below a number.
func upTo(count uint64) []uint64 {
	nonces := make([]uint64, count)
	for i := range nonces {
		nonces[i] = uint64(i)
	}
	return nonces
}

// expectExecuted takes so many results.
func expectExecuted(t *testing.T, results <-chan submit.Result, count int) {
	t.Helper()
	for range count {
		if r := <-results; r.Outcome != submit.Executed {
			t.Errorf("%v: %v", r.Outcome, r.Err)
		}
	}
}

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // servers that do not answer are what is tested here
	os.Exit(m.Run())
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
