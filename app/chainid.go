package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/consensus"
	"lockstep/mirror"
)

// checkAgain is how long the relay waits before it compares CHAIN_ID and the operator with the network again. Tests shorten it.
var checkAgain = time.Minute

// verdict is what is known of a setting that contradicts the network or does not.
type verdict int

const (
	_     verdict = iota // nothing
	right                // also: there is nothing to be wrong
	wrong
)

// verdicts are those on CHAIN_ID and on the operator. Announce and then CheckAgain alone use them.
type verdicts struct{ chain, operator verdict }

// plain is the cause of a trouble in words that anybody may read.
type plain string

func (p plain) Error() string { return string(p) }

// judge keeps a verdict, also as the metric and for readiness. cause is nil if nothing is wrong. It returns whether that is news.
func (a *App) judge(v *verdict, name string, fits *prometheus.GaugeVec, cause error) (news bool) {
	before := *v
	*v = right
	if cause != nil {
		*v = wrong
	}
	fits.WithLabelValues().Set(map[verdict]float64{right: 1}[*v])
	a.upstreams.mu.Lock()
	defer a.upstreams.mu.Unlock()
	a.note(name, cause)
	return *v != before
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

// compareChain compares CHAIN_ID with the network. An error says that nobody told the network's, and then what was known
// before stays.
func (a *App) compareChain(ctx context.Context) (network *big.Int, err error) {
	if network, err = a.networkChainID(ctx); err != nil {
		return nil, err
	}
	own, before := a.cfg.Server.ChainID, a.verdicts.chain
	var cause error
	if !network.IsUint64() || network.Uint64() != uint64(own) {
		cause = plain(fmt.Sprintf("CHAIN_ID is %s and the network has 0x%x: the relay refuses what wallets sign for the network", own.Hex(), network))
	}
	switch news := a.judge(&a.verdicts.chain, upstreamChain, a.chainFits, cause); {
	case news && cause != nil:
		a.log.Error("CHAIN_ID is not that of the network: the relay refuses what wallets sign for the network", "setting", own.Hex(), "network", fmt.Sprintf("0x%x", network))
	case news && before == wrong:
		a.log.Info("CHAIN_ID is that of the network now", "setting", own.Hex())
	}
	return network, nil
}

// CheckAgain compares CHAIN_ID and the operator with the network now and then, after Announce, until both are right or ctx
// ends: a mirror node that told nothing to Announce may do so later, and one of another network may be replaced.
func (a *App) CheckAgain(ctx context.Context) {
	ticker := time.NewTicker(checkAgain)
	defer ticker.Stop()
	for v := &a.verdicts; v.chain != right || v.operator != right; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if v.chain != right {
			_, _ = a.compareChain(ctx) // without an answer it is asked again
		}
		if v.operator != right {
			a.operatorAgain(ctx)
		}
	}
}

// AddressBook reads the network's list of consensus nodes from the mirror node.
func AddressBook(m *mirror.Client) consensus.AddressBook {
	return func(ctx context.Context) ([]consensus.NodeAddress, error) {
		nodes, err := m.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		var addresses []consensus.NodeAddress
		for _, node := range nodes {
			endpoints := grpcEndpoints(node.Endpoints)
			if len(endpoints) == 0 {
				continue // on its way in or out
			}
			hash, err := certHash(node.CertHash)
			if err != nil {
				return nil, fmt.Errorf("node %s: %w", node.Account, err)
			}
			addresses = append(addresses, consensus.NodeAddress{ID: node.Account, Endpoints: endpoints, CertHash: hash})
		}
		return addresses, nil
	}
}

// grpcEndpoints leaves out what is not on the network's ports for gRPC, such as proxies
// for browsers, unless that leaves nothing: a private network may have ports of its own.
func grpcEndpoints(all []string) []string {
	usual := slices.DeleteFunc(slices.Clone(all), func(endpoint string) bool {
		_, port, err := net.SplitHostPort(endpoint)
		return err != nil || port != "50211" && port != "50212"
	})
	if len(usual) == 0 {
		return all
	}
	return usual
}

// certHash reads the SHA-384 of a certificate. The address book itself holds its
// hexadecimal text, and a mirror node shows either that text or the text's own bytes.
func certHash(text string) ([]byte, error) {
	hash, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		return nil, fmt.Errorf("certificate hash: %w", err)
	}
	if inner, err := hex.DecodeString(string(hash)); err == nil {
		hash = inner
	}
	switch len(hash) {
	case 0:
		return nil, nil
	case 48:
		return hash, nil
	default:
		return nil, fmt.Errorf("certificate hash of %d bytes", len(hash))
	}
}
