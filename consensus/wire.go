package consensus

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// unsentError is a call whose message was not handed to a connection.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

func provablyUnsent(err error) bool {
	var unsent *unsentError
	return errors.As(err, &unsent)
}

// call makes one unary call. The stream is opened first, which may mean waiting
// for a connection; then leaving, if any, is called for the last look; then the request
// is written. An error before that point is an *unsentError.
//
// The buffer size of 0 makes gRPC commit to the stream once the message is written:
// otherwise it would by itself write the message again on another connection when
// the server refuses the stream, at a time when the last look no longer holds.
func call(ctx context.Context, conn *grpc.ClientConn, method string, request proto.Message, leaving func() error, response proto.Message) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream on every path
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{}, method, grpc.MaxRetryRPCBufferSize(0))
	if err != nil {
		return &unsentError{err}
	}
	if leaving != nil {
		if err := leaving(); err != nil {
			return &unsentError{err}
		}
	}
	// From here on the message may be on its way: SendMsg reports only what went wrong
	// before the transport had it; a broken stream shows in RecvMsg.
	if err := stream.SendMsg(request); err != nil {
		return &unsentError{err}
	}
	return stream.RecvMsg(response)
}
