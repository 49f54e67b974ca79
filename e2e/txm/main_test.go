package txm_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/e2e/harness"
	"lockstep/internal/envx"
	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/txmgr"
	"lockstep/txmgr/ethchain"
	"lockstep/txmgr/nearchain"
	"lockstep/txmgr/signers"
	"lockstep/txmgr/sqlstore"
)

// nodeVariable makes the test program a node of a fleet instead of running tests.
const nodeVariable = "LOCKSTEP_TEST_TXM_NODE"

func TestMain(m *testing.M) {
	if text := os.Getenv(nodeVariable); text != "" {
		if err := runNode(text); err != nil {
			fmt.Fprintln(os.Stderr, "node:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// These tests wait for leases, blocks and time-outs far more than they compute.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err) // the flag is there since long
	}
	os.Exit(harness.Main(m, filepath.Join("..", "..")))
}

// txmNode is the configuration of one process.
type txmNode struct {
	Ledger   string
	Instance string
	Chain    uint64
	URLs     []string // of endpoints, or of Hedera's mirror node
	Network  string   // of Hedera, as HEDERA_NETWORK is written
	Driver   string   // "near", "relay" of Hedera, or "" for what the rest says
	Depth    uint64
	InFlight int
	Keys     []string
	Point    string // where to die by SIGKILL
	After    int    // how many visits of the point are survived
	Stop     bool   // stop there by SIGSTOP instead, once

	Bump, Cancel, Resend, Lease, Reconcile, Timeout time.Duration
	MaxFee                                          uint64
}

func (n txmNode) config() txmgr.Config {
	c := txmgr.Defaults()
	c.Instance, c.Poll, c.InFlight, c.MaxFeePerGas = n.Instance, envx.Millis(50*time.Millisecond), n.InFlight, n.MaxFee
	for to, d := range map[*envx.Millis]time.Duration{
		&c.BumpAfter: n.Bump, &c.CancelAfter: n.Cancel, &c.ResendAfter: n.Resend, &c.Lease: n.Lease, &c.Reconcile: n.Reconcile,
	} {
		if d != 0 {
			*to = envx.Millis(d)
		}
	}
	c.CancelAfter = max(c.CancelAfter, c.BumpAfter)
	c.Reservation = envx.Millis(time.Hour) // however slow the machine is
	if n.Lease != 0 {
		c.SendTimeout = c.Lease / 2
	}
	return c
}

// open opens the driver: of Hedera if the node knows Hedera's nodes.
func (n txmNode) open(log *slog.Logger) (txmgr.Chain, error) {
	if n.Network != "" {
		return n.hedera(log)
	}
	if n.Driver == "near" {
		return nearchain.New(nearchain.Config{ID: fmt.Sprint(n.Chain), URLs: n.URLs, InFlight: n.InFlight, Timeout: n.Timeout})
	}
	if n.Driver == "relay" {
		return ethchain.New(ethchain.Config{ID: n.Chain, URLs: n.URLs, NoPool: true, InFlight: n.InFlight, Timeout: n.Timeout})
	}
	return ethchain.New(ethchain.Config{ID: n.Chain, URLs: n.URLs, Depth: &n.Depth, Timeout: n.Timeout})
}

// manager opens a node's manager. Without Run it only accepts.
func (n txmNode) manager(ctx context.Context, log *slog.Logger) (*txmgr.Manager, *sqlstore.Store, *ledger.DB, error) {
	db, err := ledger.Open(ctx, n.Ledger)
	if err != nil {
		return nil, nil, nil, err
	}
	store, err := sqlstore.New(ctx, db)
	if err != nil {
		return nil, nil, nil, err
	}
	chain, err := n.open(log)
	if err != nil {
		return nil, nil, nil, err
	}
	c := n.config()
	var keys []txmgr.Key
	for _, text := range n.Keys {
		keys = append(keys, signerOf(text))
	}
	m, err := txmgr.New(txmgr.Options{
		Config: c, Store: store, Chains: []txmgr.Chain{chain}, Keys: keys, Log: log,
		Leases: lease.NewKeeper(db, "txm", n.Instance, lease.Options{TTL: c.Lease.Duration()}, log),
	})
	return m, store, db, err
}

func runNode(text string) error {
	var n txmNode
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m, _, db, err := n.manager(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	visits := 0
	m.SetFaults(func(_ context.Context, point, _, _ string) {
		if point != n.Point {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		visits++
		if n.Stop && visits == n.After+1 {
			stopHere(point)
		}
		if !n.Stop && visits > n.After {
			fmt.Fprintln(os.Stderr, "node: dies at", point)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until the signal is there
		}
	})
	return errors.Join(m.Run(ctx), db.Close())
}

// stopHere stops this process until somebody lets it go on.
func stopHere(point string) {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	fmt.Fprintln(os.Stderr, "node: stops at", point)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-goesOn
}

// signerOf reads a key of any chain.
func signerOf(text string) txmgr.Key {
	if strings.Contains(text, "/") {
		return accessKeyOf(text)
	}
	return keyOf(text)
}

func keyOf(text string) signers.Signer {
	key, err := crypto.HexToECDSA(text)
	if err != nil {
		panic(err) // a constant of these tests
	}
	return signers.Local(key, "env")
}

// The first keys of anvil's well-known mnemonic.
var devKeys = []string{
	"ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
	"59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
	"5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
	"7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
}
