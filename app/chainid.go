package app

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"lockstep/mirror"
)

// checkAgain is how long the relay waits before it compares CHAIN_ID and the operator with the network again. Tests shorten it.
var checkAgain = time.Minute

// chainComparison is what comparing CHAIN_ID with the network has shown.
type chainComparison struct {
	mu    sync.Mutex
	right bool     // guarded by mu: the two are known to be the same
	wrong *trouble // guarded by mu: nil while the two are not known to differ
}

// chainIDCode is init code that returns the chain id. What follows the return is there for
// mirror nodes that look for a copy and a return in what they take for init code.
func chainIDCode() []byte {
	return []byte{0x46, 0x60, 0x00, 0x52, 0x60, 0x20, 0x60, 0x00, 0xf3, 0x39, 0xf3}
}

// networkChainID returns the chain id that the network's EVM shows.
func (a *App) networkChainID(ctx context.Context) (*big.Int, error) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	output, err := a.mirror.Call(ctx, mirror.CallRequest{Data: chainIDCode(), Block: "latest"})
	if err != nil {
		return nil, err
	}
	if len(output) != 32 {
		return nil, errors.New("the mirror node ran no code")
	}
	return new(big.Int).SetBytes(output), nil
}

// compareChain compares CHAIN_ID with the network and notes the result for readiness and metrics. An error says that
// nobody told the network's, and then what was known before stays.
func (a *App) compareChain(ctx context.Context) (network *big.Int, fits bool, err error) {
	if network, err = a.networkChainID(ctx); err != nil {
		return nil, false, err
	}
	own := a.cfg.Server.ChainID
	fits = network.IsUint64() && network.Uint64() == uint64(own)
	c := &a.chainID
	c.mu.Lock()
	defer c.mu.Unlock()
	c.right = fits
	switch {
	case fits:
		if c.wrong != nil {
			a.log.Info("CHAIN_ID is that of the network now", "setting", own.Hex())
		}
		c.wrong = nil
		a.chainFits.WithLabelValues().Set(1)
	case c.wrong == nil:
		a.log.Error("CHAIN_ID is not that of the network: the relay refuses what wallets sign for the network", "setting", own.Hex(), "network", fmt.Sprintf("0x%x", network))
		a.chainFits.WithLabelValues().Set(0)
		c.wrong = &trouble{
			Upstream: upstreamChain, Since: time.Now().UTC(), Fatal: a.failsWithout(upstreamChain),
			Cause: fmt.Sprintf("CHAIN_ID is %s and the network has 0x%x: the relay refuses what wallets sign for the network", own.Hex(), network),
		}
	}
	return network, fits, nil
}

// CheckAgain compares CHAIN_ID and the operator with the network now and then, after Announce, until both are right or ctx
// ends: a mirror node that told nothing to Announce may do so later, and one of another network may be replaced.
func (a *App) CheckAgain(ctx context.Context) {
	ticker := time.NewTicker(checkAgain)
	defer ticker.Stop()
	for !a.chainIsRight() || a.operatorFound != operatorRight {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if !a.chainIsRight() {
			_, _, _ = a.compareChain(ctx) // without an answer it is asked again
		}
		if a.operatorFound != operatorRight {
			a.operatorAgain(ctx)
		}
	}
}

func (a *App) chainIsRight() bool {
	c := &a.chainID
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.right
}

// chainTrouble is the reason that a wrong CHAIN_ID gives readiness.
func (a *App) chainTrouble() (trouble, bool) {
	c := &a.chainID
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wrong == nil {
		return trouble{}, false
	}
	return *c.wrong, true
}
