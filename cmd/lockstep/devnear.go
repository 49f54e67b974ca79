package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/devnet/near"
	"lockstep/internal/httpserve"
)

// nearNode is a model of a NEAR chain behind a node's JSON-RPC, beside the network of
// `lockstep dev`.
type nearNode struct {
	chain    *near.Chain
	listener net.Listener
	accounts []near.Developer
}

func startNear(ctx context.Context, address string) (*nearNode, error) {
	developers, accounts, err := near.Developers()
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--near-address: %w", err)
	}
	return &nearNode{chain: near.New(near.Config{Accounts: accounts}), listener: listener, accounts: developers}, nil
}

func (n *nearNode) url() string { return "http://" + n.listener.Addr().String() }

// Run makes blocks and answers until the context ends.
func (n *nearNode) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	server := &http.Server{
		Handler: n.chain, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	group.Go(func() error { return n.chain.Run(ctx) })
	group.Go(func() error { return httpserve.Until(ctx, server, n.listener, 0) })
	return group.Wait()
}

// nearReady is what is printed of it.
type nearReady struct {
	RPC      string           `json:"rpc"`
	Accounts []near.Developer `json:"accounts"`
}

func (n *nearNode) ready() *nearReady { return &nearReady{RPC: n.url(), Accounts: n.accounts} }
