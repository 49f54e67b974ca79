package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lockstep/console/page"
	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/watch"
)

type watchesOutBody struct {
	Watches []watch.State `json:"watches"`
}

type contractsIn struct {
	Watch  string `query:"watch" maxLength:"64"`
	Status string `query:"status" maxLength:"64"`
	Cursor string `query:"cursor" maxLength:"128"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

type contractsOutBody struct {
	Contracts []watch.Followed `json:"contracts"`
	Cursor    string           `json:"cursor,omitempty" doc:"Of the next page; none at the end."`
}

type eventsIn struct {
	Watch    string `query:"watch" maxLength:"64"`
	Address  string `query:"address" maxLength:"42" doc:"Of a contract."`
	Argument string `query:"argument" maxLength:"256" doc:"A value that an argument has, or name=value of the one of that name; small and large letters are the same."`
	Cursor   string `query:"cursor" maxLength:"20" doc:"The cursor of the page before; none for the oldest message that is kept."`
	Newest   bool   `query:"newest" doc:"The newest messages, newest first, instead of those behind a cursor. The answer's cursor is where newer ones begin."`
	Limit    int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Messages that are looked at; with a filter the page may have fewer."`
}

type eventsOutBody struct {
	Events []watch.Told `json:"events"`
	Cursor string       `json:"cursor" doc:"Of the next page. While it does not change there is nothing new."`
}

type streamIn struct {
	rest.Place
	Watch   string `query:"watch" maxLength:"64"`
	Address string `query:"address" maxLength:"42"`
}

type nodesOutBody struct {
	Nodes []watch.Node `json:"nodes"`
}

type sinksOutBody struct {
	Sinks []watch.SinkState `json:"sinks"`
}

type backfillIn struct {
	ID     string `path:"id" maxLength:"64"`
	From   uint64 `query:"from" required:"true" doc:"First block."`
	To     int64  `query:"to" minimum:"-1" default:"-1" doc:"Last block; none, or -1, for the newest."`
	Repeat bool   `query:"repeat" doc:"Hand on again what the sinks have been told before. Otherwise only what is new."`
	Act    bool   `query:"act" doc:"Let the manager's sink act on what is handed on. Otherwise it does not."`
}

type backfillsOutBody struct {
	Backfills []watch.Backfill `json:"backfills"`
}

func (s *Server) routes() {
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/watches", "watches", "What is followed, and how far it is"), func(ctx context.Context, _ *struct{}) (*rest.Out[watchesOutBody], error) {
		list, err := s.Watchers.States(ctx)
		return rest.Answered(watchesOutBody{list}, err)
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/contracts", "contracts", "The contracts that are followed"), func(ctx context.Context, in *contractsIn) (*rest.Out[contractsOutBody], error) {
		list, next, err := s.Watchers.Contracts(ctx, in.Watch, in.Status, in.Cursor, in.Limit)
		return rest.Answered(contractsOutBody{list, next}, err)
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/events", "events", "What was handed on, in an order that never changes"), func(ctx context.Context, in *eventsIn) (*rest.Out[eventsOutBody], error) {
		after, err := rest.Cursor(in.Cursor)
		if err != nil {
			return nil, err
		}
		var list []watch.Told
		var next int64
		switch {
		case in.Newest && in.Cursor != "":
			err = watch.ErrCursor
		case in.Newest:
			list, next, err = s.Watchers.Latest(ctx, in.Watch, in.Address, in.Argument, in.Limit)
		default:
			list, next, err = s.Watchers.Messages(ctx, after, in.Watch, in.Address, in.Argument, in.Limit)
		}
		return rest.Answered(eventsOutBody{list, strconv.FormatInt(next, 10)}, err)
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/nodes", "nodes", "The processes of the fleet"), func(ctx context.Context, _ *struct{}) (*rest.Out[nodesOutBody], error) {
		list, err := s.Watchers.Nodes(ctx)
		return rest.Answered(nodesOutBody{list}, err)
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/sinks", "sinks", "How far the sinks are"), func(ctx context.Context, _ *struct{}) (*rest.Out[sinksOutBody], error) {
		list, err := s.Watchers.Sinks(ctx)
		if access.Allowed(ctx, access.RoleAdmin) != nil {
			for i := range list {
				list[i].Error = "" // it may name where the sink is
			}
		}
		return rest.Answered(sinksOutBody{list}, err)
	})
	start := s.Operation(access.RoleAdmin, http.MethodPost, "/v1/watches/{id}/backfill", "backfill", "Read blocks again, and hand on what was missed", http.StatusNotFound)
	start.DefaultStatus = http.StatusAccepted
	rest.Register(s.Server, start, func(ctx context.Context, in *backfillIn) (*rest.Out[watch.Backfill], error) {
		b, err := s.Watchers.StartBackfill(ctx, watch.Backfill{Watch: in.ID, From: in.From, Repeat: in.Repeat, Act: in.Act}, in.To)
		if err == nil {
			s.Log.InfoContext(ctx, "a backfill begins", "watch", in.ID, "from", b.From, "to", b.To, "by", access.Of(ctx).Name)
		}
		return rest.Answered(b, err)
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/watches/{id}/backfills", "backfills", "The newest backfills, and how far they are"), func(ctx context.Context, in *struct {
		ID string `path:"id" maxLength:"64"`
	},
	) (*rest.Out[backfillsOutBody], error) {
		list, err := s.Watchers.Backfills(ctx, in.ID)
		return rest.Answered(backfillsOutBody{list}, err)
	})
	rest.Stream(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/events/stream", "stream", "What is handed on, as server-sent events"), "event the watch, data an event as JSON.", s.Watchers.Newest,
		func(ctx context.Context, in *streamIn, after int64) (string, int64, error) {
			list, next, err := s.Watchers.Stream(ctx, after, in.Watch, in.Address, streamPage)
			var text strings.Builder
			for _, m := range list {
				text.WriteString(rest.Event(m.Cursor, m.Watch, m.Event))
			}
			return text.String(), next, err
		})
}

const (
	maxStreams = 200
	drain      = 5 * time.Second
	askLimit   = 20 * time.Second // one request that is no stream
	streamPage = 200
)

// Deps are what the surface stands on.
type Deps struct {
	Watchers *watch.Service
	Keys     *access.Keys
	Metrics  http.Handler
	Version  string
	Log      *slog.Logger
}

// Server is the surface. New starts nothing.
type Server struct {
	*rest.Server
	Deps
}

// known lists the errors that callers can do something about.
var known = []rest.Known{
	{Err: watch.ErrNotFound, Status: http.StatusNotFound, Code: "NOT_FOUND"},
	{Err: watch.ErrCursor, Status: http.StatusUnprocessableEntity, Code: "INVALID"},
	{Err: watch.ErrRange, Status: http.StatusUnprocessableEntity, Code: "RANGE"},
	{Err: watch.ErrOlderPlan, Status: http.StatusServiceUnavailable, Code: "OLDER_PLAN"},
}

// New makes the surface.
func New(deps Deps) *Server {
	s := &Server{Deps: deps, Server: rest.New(rest.Options{
		Of: "watchers", Description: "Follows contracts and hands every event on: at least once, in order per contract.",
		Keys: deps.Keys, MadeBy: "`lockstep watch key` or the transaction manager", NoTenants: "watchers know no tenants: a key without one is needed", Known: known, Metrics: deps.Metrics, Patience: askLimit, Streams: maxStreams, Drain: drain, Log: deps.Log,
		Ready: func(ctx context.Context) (any, bool) {
			c := deps.Watchers.Condition(ctx)
			return c, c.Ready
		},
		About: page.About{Parts: []string{page.PartWatchers}, Needs: "an access key without a tenant, which `lockstep watch key` makes", Version: deps.Version},
	})}
	s.routes()
	return s
}

// ErrLoopback means that the address is not on loopback and nobody would need a key.
var ErrLoopback = errors.New("without a key the watchers listen on loopback only; make one with `lockstep watch key`")

// Listen opens the port.
// While nobody has a key, lock draws a token and prints it.
func (s *Server) Listen(ctx context.Context, address string, lock bool) error {
	return s.Open(ctx, "WATCH_ADDRESS", address, lock, ErrLoopback)
}
