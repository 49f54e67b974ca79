package mirrorgrpc

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/facts"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Bounds of the server.
const (
	maxSubscriptions = 1_000
	maxStreams       = 100 // of one connection
	maxRequest       = 16 << 10
	ping             = time.Minute // after which an idle client is asked whether it lives
	lagStep          = 100 * time.Millisecond
)

// Config is what the API needs.
type Config struct {
	// View returns the ledger as this mirror node knows it by now.
	View func() *ledger.View
	// Changed returns a channel that receives after there were new blocks, and a function that ends it.
	Changed func() (changed <-chan struct{}, cancel func())
}

// Server is the gRPC API. It is safe for concurrent use.
type Server struct {
	cfg    Config
	places chan struct{}
}

// New makes a server.
func New(cfg Config) *Server { return &Server{cfg: cfg, places: make(chan struct{}, maxSubscriptions)} }

// Run serves a listener until the context ends, which ends the subscriptions.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxRecvMsgSize(maxRequest), grpc.KeepaliveParams(keepalive.ServerParameters{Time: ping}),
	)
	for path, handle := range map[string]func(grpc.ServerStream) error{hapi.MethodSubscribeTopic: s.subscribe, hapi.MethodGetNodes: s.nodes} {
		service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		server.RegisterService(&grpc.ServiceDesc{
			ServiceName: service, HandlerType: (*any)(nil),
			Streams: []grpc.StreamDesc{{StreamName: method, ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error { return s.handle(stream, handle) }}},
		}, s)
	}
	stopped := context.AfterFunc(ctx, server.Stop)
	defer stopped()
	if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) && ctx.Err() == nil {
		return err
	}
	return nil
}

// handle runs a stream in one of the places that there are.
func (s *Server) handle(stream grpc.ServerStream, run func(grpc.ServerStream) error) (err error) {
	defer func() {
		if failed, ok := errors.AsType[*facts.UpstreamError](err); ok {
			err = status.Error(codes.Unavailable, failed.Error())
		}
	}()
	defer facts.Catch(&err)
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		return status.Errorf(codes.ResourceExhausted, "there are %d subscriptions already", maxSubscriptions)
	}
	return run(stream)
}

// nodes sends the address book, of which both files have the same.
func (s *Server) nodes(stream grpc.ServerStream) error {
	query := new(hapi.AddressBookQuery)
	if err := stream.RecvMsg(query); err != nil {
		return err
	}
	id := query.GetFileId()
	file := hedera.ID{Shard: id.GetShardNum(), Realm: id.GetRealmNum(), Num: id.GetFileNum()}
	if file != hedera.Entity(addressBook) && file != hedera.Entity(nodeDetails) {
		return status.Errorf(codes.InvalidArgument, "file_id: want %s or %s, the files of address books", hedera.Entity(nodeDetails), hedera.Entity(addressBook))
	}
	found, _ := s.cfg.View().File(file)
	book := new(hapi.NodeAddressBook)
	if err := proto.Unmarshal(found.Contents, book); err != nil {
		return status.Error(codes.Internal, "the address book cannot be read")
	}
	list := book.GetNodeAddress()
	if limit := query.GetLimit(); limit > 0 {
		list = list[:min(int(limit), len(list))]
	}
	for _, node := range list {
		if err := stream.SendMsg(node); err != nil {
			return err
		}
	}
	return nil
}

// The files in which a network keeps its address book, whole and in short.
const (
	nodeDetails = 101
	addressBook = 102
)

func (s *Server) subscribe(stream grpc.ServerStream) error {
	query := new(hapi.ConsensusTopicQuery)
	if err := stream.RecvMsg(query); err != nil {
		return err
	}
	sub, err := s.subscription(query)
	if err != nil {
		return err
	}
	return sub.run(stream)
}

// subscription is where one client is.
type subscription struct {
	cfg   Config
	topic int64
	next  hedera.Timestamp // of the earliest message that was not sent
	end   hedera.Timestamp // the first one that is not sent; zero for none
	left  uint64           // messages; 0 at the beginning for no limit
	bound bool
}

func (s *Server) subscription(query *hapi.ConsensusTopicQuery) (*subscription, error) {
	view := s.cfg.View()
	id := query.GetTopicID()
	topic := hedera.ID{Shard: id.GetShardNum(), Realm: id.GetRealmNum(), Num: id.GetTopicNum()}
	sub := &subscription{
		cfg: s.cfg, topic: topic.Num, left: query.GetLimit(), bound: query.GetLimit() > 0,
		next: after(view.Time()),
	}
	var ok bool
	if start := query.GetConsensusStartTime(); start != nil {
		if sub.next, ok = timestamp(start); !ok {
			return nil, status.Error(codes.InvalidArgument, "consensusStartTime: want a time since 1970")
		}
	}
	if end := query.GetConsensusEndTime(); end != nil {
		if sub.end, ok = timestamp(end); !ok || sub.end.Compare(sub.next) <= 0 {
			return nil, status.Error(codes.InvalidArgument, "consensusEndTime: must be after the start")
		}
	}
	if id == nil {
		return nil, status.Error(codes.InvalidArgument, "topicID: missing")
	}
	if _, known := view.Topic(topic); !known {
		return nil, status.Errorf(codes.NotFound, "topic %s does not exist", topic)
	}
	return sub, nil
}

func timestamp(t *hapi.Timestamp) (hedera.Timestamp, bool) {
	const latest = 1 << 33 // seconds; consensus time in nanoseconds has 63 bits
	out := hedera.Timestamp{Seconds: t.GetSeconds(), Nanos: t.GetNanos()}
	return out, out.Seconds >= 0 && out.Seconds <= latest && out.Nanos >= 0 && out.Nanos < 1e9
}

func after(t hedera.Timestamp) hedera.Timestamp { return hedera.FromNanos(t.UnixNano() + 1) }

// run sends messages until there are to be no more. A mirror node that lags is asked now and then: it
// may show a block later than it came into being.
func (sub *subscription) run(stream grpc.ServerStream) error {
	changed, cancel := sub.cfg.Changed()
	defer cancel()
	lagging := time.NewTicker(lagStep)
	defer lagging.Stop()
	generation := sub.cfg.View().Generation().Number
	for {
		view := sub.cfg.View()
		if now, left := view.LeftSince(generation); now != generation { // what was there since then has not happened
			generation = now
			if sub.next.Compare(left) > 0 { // the view may have gone on since
				sub.next = after(left)
			}
		}
		if over, err := sub.send(stream, view); over || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-lagging.C:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// send brings the client up to a view; over tells that nothing more is to come.
func (sub *subscription) send(stream grpc.ServerStream, view *ledger.View) (over bool, err error) {
	for r := range view.Records(sub.next, view.Time(), false) {
		if sub.ended(r.Consensus) {
			return true, nil
		}
		if m := r.Did().Message; m != nil && m.Topic.Num == sub.topic && r.Status == hapi.ResponseCodeEnum_SUCCESS {
			if err := stream.SendMsg(answer(r, m)); err != nil {
				return true, err
			}
			if sub.left--; sub.bound && sub.left == 0 {
				return true, nil
			}
		}
	}
	if seen := after(view.Time()); sub.next.Compare(seen) < 0 {
		sub.next = seen
	}
	return sub.ended(view.Time()), nil
}

func (sub *subscription) ended(at hedera.Timestamp) bool {
	return !sub.end.IsZero() && at.Compare(sub.end) >= 0
}

func answer(r *history.Record, m *state.TopicMessage) *hapi.ConsensusTopicResponse {
	const version = 3 // of the way in which running hashes are made
	return &hapi.ConsensusTopicResponse{
		ConsensusTimestamp: r.Consensus.Message(),
		Message:            m.Contents, RunningHash: m.RunningHash[:], SequenceNumber: uint64(m.Sequence), RunningHashVersion: version, ChunkInfo: m.Chunk,
	}
}
