package near

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/httpserve"
)

// Node is a chain of its own behind the JSON-RPC of a NEAR node.
type Node struct {
	chain    *Chain
	listener net.Listener
	accounts []Developer
}

// Listen makes a chain with the accounts of [Developers] and opens its port.
func Listen(ctx context.Context, address string) (*Node, error) {
	developers, accounts, err := Developers()
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--near-address: %w", err)
	}
	return &Node{chain: New(Config{Accounts: accounts}), listener: listener, accounts: developers}, nil
}

// Run makes blocks and answers until the context ends.
func (n *Node) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	server := &http.Server{
		Handler: n.chain, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	group.Go(func() error { return n.chain.Run(ctx) })
	group.Go(func() error { return httpserve.Until(ctx, server, n.listener, 0) })
	return group.Wait()
}

// Ready is what is printed of a node.
type Ready struct {
	RPC      string      `json:"rpc"`
	Accounts []Developer `json:"accounts"`
}

// Ready is where the node is, and who has money there.
func (n *Node) Ready() *Ready {
	return &Ready{RPC: "http://" + n.listener.Addr().String(), Accounts: n.accounts}
}
