package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/internal/sleep"
)

// AddressBook fetches the network's present list of nodes from somewhere outside.
type AddressBook func(ctx context.Context) ([]NodeAddress, error)

// bookTimeout is how long fetching the address book may take.
const bookTimeout = time.Minute

// bookRest is the least time between two fetches, however many nodes deny their accounts.
const bookRest = time.Minute

// named tells whether the network is one of those whose nodes are known by its name.
func (c *Config) named() bool { return !strings.HasPrefix(strings.TrimSpace(c.Network), "{") }

// Follow makes Run keep the list of nodes up to date from book: when it starts, at the interval of the
// settings, and soon after a node has denied being the account it is listed as. It does nothing
// if the settings name the nodes one by one or switch it off. Call it before Run.
func (c *Client) Follow(book AddressBook) {
	if c.refresh > 0 {
		c.book = book
	}
}

// followBook fetches the address book until ctx is done.
func (c *Client) followBook(ctx context.Context) {
	if c.book == nil {
		return
	}
	tick := time.NewTicker(c.refresh)
	defer tick.Stop()
	for {
		if err := c.Refresh(ctx, c.book); err != nil && ctx.Err() == nil {
			c.log.Warn("the list of consensus nodes stays as it is", "error", err)
		}
		if !sleep.For(ctx, c.pace.bookRest) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.outdated:
		}
	}
}

// denied notes that a node is not the account it is listed as.
func (c *Client) denied() {
	select {
	case c.outdated <- struct{}{}:
	default: // noted already
	}
}

// Refresh replaces the list of nodes by what book says now. A book that cannot be read,
// is empty, or lists a node twice or without an address changes nothing. A node that was
// pinned to a certificate stays pinned to it if the book has no certificate for it.
func (c *Client) Refresh(ctx context.Context, book AddressBook) error {
	ctx, cancel := context.WithTimeout(ctx, bookTimeout)
	defer cancel()
	addresses, err := book(ctx)
	if err != nil {
		return fmt.Errorf("address book: %w", err)
	}
	for i, a := range addresses {
		if a.ID.Num < 1 {
			return errors.New("address book: a node without an account")
		}
		for _, other := range addresses[:i] {
			if other.ID == a.ID {
				return fmt.Errorf("address book: node %s is there twice", a.ID)
			}
		}
		if known := c.nodes.find(a.ID); known != nil && a.CertHash == nil {
			addresses[i].CertHash = known.certHash
		}
	}
	sortNodes(addresses)
	before := c.nodes.all()
	if err := c.SetNodes(addresses); err != nil {
		return err
	}
	if now := c.nodes.all(); !slices.Equal(before, now) {
		c.log.Info("the list of consensus nodes has changed", "nodes", len(now))
	}
	return nil
}
