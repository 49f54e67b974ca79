package ethapi

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/mirror"
)

// logFilter selects logs of new blocks.
type logFilter struct {
	key       string           // equal for filters that select the same
	addresses []common.Address // sorted, with all names that logs may show; empty: any
	topics    topicQuery
}

// newLogFilter makes a filter. aliases are other names of the addresses.
func newLogFilter(addresses, aliases []common.Address, topics topicQuery) *logFilter {
	f := &logFilter{topics: topics, addresses: slices.Concat(addresses, aliases)}
	slices.SortFunc(f.addresses, common.Address.Cmp)
	f.addresses = slices.Compact(f.addresses)
	var key strings.Builder
	for _, address := range f.addresses {
		key.Write(address[:])
	}
	fmt.Fprintf(&key, "|%d", topics.named)
	for i, alternatives := range topics.at {
		sorted := slices.Clone(alternatives)
		slices.SortFunc(sorted, func(a, b common.Hash) int { return bytes.Compare(a[:], b[:]) })
		f.topics.at[i] = slices.Compact(sorted)
		fmt.Fprintf(&key, "|%d:", len(f.topics.at[i]))
		for _, topic := range f.topics.at[i] {
			key.Write(topic[:])
		}
	}
	f.key = key.String()
	return f
}

func (f *logFilter) matches(l *eth.Log) bool {
	if len(f.addresses) > 0 {
		if _, found := slices.BinarySearchFunc(f.addresses, l.Address, common.Address.Cmp); !found {
			return false
		}
	}
	for i, alternatives := range f.topics.at {
		if len(alternatives) > 0 && (i >= len(l.Topics) || !slices.Contains(alternatives, l.Topics[i])) {
			return false
		}
	}
	return f.topics.fits(l)
}

// readLogFilter reads the second parameter of a subscription to logs.
func (s *Subscriptions) readLogFilter(ctx context.Context, v jsonx.Value) (*logFilter, error) {
	switch {
	case !v.Given() && s.hiero():
		return nil, eth.ErrInternal(`"Cannot convert undefined or null to object"`)
	case !v.Given():
		return newLogFilter(nil, nil, topicQuery{}), nil
	}
	if err := logsSubscriptionRule(!s.hiero()).Verify(1, v); err != nil {
		return nil, err
	}
	addresses := distinctAddresses(v.Field("address"))
	switch {
	case s.hiero() && !s.cfg.MultipleAddresses && len(addresses) > 1:
		return nil, eth.ErrInvalidParam("filters.address", "Only one contract address is allowed")
	case len(addresses) > s.cfg.AddressLimit:
		return nil, eth.ErrInvalidParam("filters.address", "A maximum of %d contract addresses are allowed", s.cfg.AddressLimit)
	}
	topics, err := s.api.readTopics(v.Field("topics"))
	if err != nil {
		return nil, err
	}
	aliases, err := s.aliases(ctx, addresses)
	if err != nil {
		return nil, err
	}
	return newLogFilter(addresses, aliases, topics), nil
}

// aliases returns the names that logs show for the addresses. In profile hiero a contract or token must exist at
// each.
func (s *Subscriptions) aliases(ctx context.Context, addresses []common.Address) ([]common.Address, error) {
	aliases := make([]common.Address, len(addresses))
	err := each(ctx, s.api.cfg.Concurrency, addresses, func(ctx context.Context, i int, address common.Address) (err error) {
		if s.hiero() {
			aliases[i], err = s.existing(ctx, address)
		} else {
			aliases[i], err = s.api.mirror.Alias(ctx, address)
		}
		return err
	})
	return aliases, err
}

// existing is the name of the contract or token at an address.
func (s *Subscriptions) existing(ctx context.Context, address common.Address) (common.Address, error) {
	contract, err := s.api.mirror.Contract(ctx, address)
	if missing, err := notFound(err); err != nil {
		return address, err
	} else if !missing {
		return named(contract, address), nil
	}
	if id, ok := hedera.FromLongZero(address); ok {
		_, err := s.api.mirror.Token(ctx, id)
		if missing, err := notFound(err); err != nil || !missing {
			return address, err
		}
	}
	return address, eth.ErrInvalidParam("filters.address", "%s is not a valid contract or token type or does not exists", strings.ToLower(address.Hex()))
}

func named(contract *mirror.Contract, address common.Address) common.Address {
	if contract.Address == (common.Address{}) {
		return address
	}
	return contract.Address
}
