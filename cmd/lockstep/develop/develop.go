package develop

import (
	"context"
	"crypto/ecdsa"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/app"
	"lockstep/devnet"
	"lockstep/devnet/ledger"
	"lockstep/internal/eth"
	"lockstep/rpc"
)

// Developer answers what tools for development ask of chains of their own: snapshots, time,
// mining, state, and accounts whose keys the chain has. It changes the ledger directly, and
// tells the relay that something changed. What it sends goes through the relay, as what
// anybody sends does.
type Developer struct {
	// Quiet says that transactions are not to be shown.
	Quiet atomic.Bool

	ledger  *ledger.Ledger
	network *devnet.Network
	log     *slog.Logger
	version string
	relay   *app.App // set by Before
	self    loopback // the relay's own port

	accounts []common.Address // that have keys, in the order in which they are shown
	keys     map[common.Address]*signer

	mu           sync.Mutex
	snapshots    []numbered                  // guarded by mu; those that are good, oldest first
	last         uint64                      // guarded by mu; number of the newest one ever
	impersonated map[common.Address]struct{} // guarded by mu
	anybody      bool                        // guarded by mu; everybody is impersonated
}

// signer is an account whose key the chain has. Its transactions are made one at a time.
type signer struct {
	key *ecdsa.PrivateKey
	mu  sync.Mutex
}

// Bounds of what tools can make the process keep.
const (
	maxSnapshots    = 10_000
	maxImpersonated = 10_000
)

// New makes the methods of a network. The version is the program's.
func New(network *devnet.Network, version string, log *slog.Logger) (*Developer, error) {
	d := &Developer{
		ledger: network.Ledger(), network: network, version: version, log: log,
		keys: map[common.Address]*signer{}, impersonated: map[common.Address]struct{}{},
	}
	for _, a := range network.Accounts() {
		if a.KeyType != "ECDSA_SECP256K1" {
			continue
		}
		key, err := crypto.HexToECDSA(a.PrivateKey[2:])
		if err != nil {
			return nil, err
		}
		if address := common.HexToAddress(a.Address); crypto.PubkeyToAddress(key.PublicKey) == address {
			d.accounts = append(d.accounts, address)
			d.keys[address] = &signer{key: key}
		}
	}
	return d, nil
}

// Before says which relay answers what is sent here. It is called before anything is served, and after the relay listens.
func (d *Developer) Before(relay *app.App) {
	d.relay, d.self = relay, loopback{url: "http://" + relay.HTTPAddr()}
}

// Methods are all of them.
func (d *Developer) Methods() []rpc.Method {
	return concat(d.stateMethods(), d.snapshotMethods(), d.clockMethods(), d.accountMethods(), d.impersonationMethods(), d.blockMethods(), d.infoMethods())
}

func concat(lists ...[]rpc.Method) (all []rpc.Method) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// named are rows with one handler under several names.
func named(handler rpc.Handler, names ...string) []rpc.Method {
	rows := make([]rpc.Method, 0, len(names))
	for _, name := range names {
		rows = append(rows, rpc.Method{Name: name, AnyParams: true, Handler: handler})
	}
	return rows
}

// changed tells the relay of a change that it did not see. That the mirror node does not
// answer is no reason to fail: then the relay has nothing to answer from either.
func (d *Developer) changed(ctx context.Context) {
	if err := d.relay.Changed(ctx); err != nil {
		d.log.DebugContext(ctx, "the mirror node does not answer", "error", err)
	}
}

// count reads a number, which tools write as hexadecimal, as decimal text or as JSON numbers.
func count(p *rpc.Params, at int) (uint64, error) {
	v := p.At(at)
	if n, ok := v.Uint64(); ok {
		return n, nil
	}
	if n, err := strconv.ParseUint(v.Text(), 10, 63); err == nil {
		return n, nil
	}
	return 0, eth.ErrInvalidParam(at, "want a number")
}

// countOr is count with what an absent parameter stands for.
func countOr(p *rpc.Params, at int, absent uint64) (uint64, error) {
	if !p.Given(at) {
		return absent, nil
	}
	return count(p, at)
}

// addressAt reads an address.
func addressAt(p *rpc.Params, at int) (common.Address, error) {
	if raw := p.At(at).Bytes(); len(raw) == common.AddressLength {
		return common.Address(raw), nil
	}
	return common.Address{}, eth.ErrInvalidParam(at, "want an address of 20 bytes")
}
