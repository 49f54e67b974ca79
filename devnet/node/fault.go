package node

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/sleep"
)

// Call is a call at a node that a fault may spoil. One of the pointers is set; for
// a transaction that could not be decoded neither is.
type Call struct {
	Node       int // index of the node
	Submission *ledger.Submission
	Query      *hapi.Query
}

// Fault is how to spoil a call. The zero value leaves it alone.
type Fault struct {
	Delay      time.Duration // before anything happens
	DropBefore bool          // the connection breaks and nothing was taken
	Code       codes.Code    // answered with this error of gRPC; nothing is taken
	Status     hedera.Status // answered instead of the node's own precheck; the transaction is not taken, the query not answered
	Vanish     bool          // answered OK, and consensus never sees it
	Outcome    hedera.Status // answered OK, and consensus refuses it with this
	Lose       bool          // answered OK by a node that is killed before it passes it on: no node knows it afterwards
	DropAfter  bool          // taken, and then the connection breaks
	GoAway     bool          // before anything happens, the node sends its clients away; this call is finished
}

// spoil asks for the fault of a call and applies what comes before it.
func (n *Node) spoil(ctx context.Context, sub *ledger.Submission, query *hapi.Query) (Fault, error) {
	if n.fault == nil {
		return Fault{}, nil
	}
	fault := n.fault(Call{Node: n.index, Submission: sub, Query: query})
	if fault.GoAway {
		n.acceptor.goAway()
	}
	if fault.Delay > 0 && !sleep.For(ctx, fault.Delay) {
		return fault, status.FromContextError(ctx.Err()).Err()
	}
	if fault.DropBefore {
		return fault, status.Error(codes.Unavailable, "the connection was lost")
	}
	if fault.Code != codes.OK {
		return fault, status.Error(fault.Code, "a fault")
	}
	return fault, nil
}
