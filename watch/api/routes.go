package api

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/watch"
)

type watchesOut struct {
	Body struct {
		Watches []watch.State `json:"watches"`
	}
}

type contractsIn struct {
	Watch  string `query:"watch" maxLength:"64"`
	Status string `query:"status" maxLength:"64"`
	Cursor string `query:"cursor" maxLength:"128"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

type contractsOut struct {
	Body struct {
		Contracts []watch.Followed `json:"contracts"`
		Cursor    string           `json:"cursor,omitempty" doc:"Of the next page; none at the end."`
	}
}

type eventsIn struct {
	Watch    string `query:"watch" maxLength:"64"`
	Address  string `query:"address" maxLength:"42" doc:"Of a contract."`
	Argument string `query:"argument" maxLength:"256" doc:"A value that an argument has, or name=value of the one of that name; small and large letters are the same."`
	Cursor   string `query:"cursor" maxLength:"20" doc:"The cursor of the page before; none for the oldest message that is kept."`
	Newest   bool   `query:"newest" doc:"The newest messages, newest first, instead of those behind a cursor. The answer's cursor is where newer ones begin."`
	Limit    int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Messages that are looked at; with a filter the page may have fewer."`
}

type eventsOut struct {
	Body struct {
		Events []watch.Told `json:"events"`
		Cursor string       `json:"cursor" doc:"Of the next page. While it does not change there is nothing new."`
	}
}

type streamIn struct {
	rest.Place
	Watch   string `query:"watch" maxLength:"64"`
	Address string `query:"address" maxLength:"42"`
}

type nodesOut struct {
	Body struct {
		Nodes []watch.Node `json:"nodes"`
	}
}

type sinksOut struct {
	Body struct {
		Sinks []watch.SinkState `json:"sinks"`
	}
}

type backfillIn struct {
	ID     string     `path:"id" maxLength:"64"`
	From   uint64     `query:"from" required:"true" doc:"First block."`
	To     maybeBlock `query:"to" doc:"Last block; none for the newest."`
	Repeat bool       `query:"repeat" doc:"Hand on again what the sinks have been told before. Otherwise only what is new."`
	Act    bool       `query:"act" doc:"Let the manager's sink act on what is handed on. Otherwise it does not."`
}

// maybeBlock is the number of a block, which may be left out: 0 is a block, too.
type maybeBlock struct {
	N     uint64
	given bool
}

func (b *maybeBlock) number() *uint64 {
	if !b.given {
		return nil
	}
	return &b.N
}

// Receiver is what huma reads into.
func (b *maybeBlock) Receiver() reflect.Value { return reflect.ValueOf(b).Elem().Field(0) }

// OnParamSet notes whether there was one.
func (b *maybeBlock) OnParamSet(given bool, _ any) { b.given = given }

// Schema describes what is read.
func (maybeBlock) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[uint64]())
}

type backfillsOut struct {
	Body struct {
		Backfills []watch.Backfill `json:"backfills"`
	}
}

func (s *Server) routes() {
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/watches", "watches", "What is followed, and how far it is"), func(ctx context.Context, _ *struct{}) (*watchesOut, error) {
		out := &watchesOut{}
		var err error
		out.Body.Watches, err = s.Watchers.States(ctx)
		return out, err
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/contracts", "contracts", "The contracts that are followed"), func(ctx context.Context, in *contractsIn) (*contractsOut, error) {
		out := &contractsOut{}
		var err error
		out.Body.Contracts, out.Body.Cursor, err = s.Watchers.Contracts(ctx, in.Watch, in.Status, in.Cursor, in.Limit)
		return out, err
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/events", "events", "What was handed on, in an order that never changes"), func(ctx context.Context, in *eventsIn) (*eventsOut, error) {
		after, err := rest.Cursor(in.Cursor)
		if err != nil {
			return nil, err
		}
		if in.Newest && in.Cursor != "" {
			return nil, watch.ErrCursor
		}
		out := &eventsOut{}
		var list []watch.Told
		var next int64
		if in.Newest {
			list, next, err = s.Watchers.Latest(ctx, in.Watch, in.Address, in.Argument, in.Limit)
		} else {
			list, next, err = s.Watchers.Messages(ctx, after, in.Watch, in.Address, in.Argument, in.Limit)
		}
		out.Body.Events, out.Body.Cursor = list, strconv.FormatInt(next, 10)
		return out, err
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/nodes", "nodes", "The processes of the fleet"), func(ctx context.Context, _ *struct{}) (*nodesOut, error) {
		out := &nodesOut{}
		var err error
		out.Body.Nodes, err = s.Watchers.Nodes(ctx)
		return out, err
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/sinks", "sinks", "How far the sinks are"), func(ctx context.Context, _ *struct{}) (*sinksOut, error) {
		out := &sinksOut{}
		var err error
		out.Body.Sinks, err = s.Watchers.Sinks(ctx)
		if access.Allowed(ctx, access.RoleAdmin) != nil {
			for i := range out.Body.Sinks {
				out.Body.Sinks[i].Error = "" // it may name where the sink is
			}
		}
		return out, err
	})
	start := s.Operation(access.RoleAdmin, http.MethodPost, "/v1/watches/{id}/backfill", "backfill", "Read blocks again, and hand on what was missed", http.StatusNotFound)
	start.DefaultStatus = http.StatusAccepted
	rest.Register(s.Server, start, func(ctx context.Context, in *backfillIn) (*rest.Out[watch.Backfill], error) {
		b, err := s.Watchers.StartBackfill(ctx, watch.Backfill{Watch: in.ID, From: in.From, Repeat: in.Repeat, Act: in.Act}, in.To.number())
		if err == nil {
			s.Log.InfoContext(ctx, "a backfill begins", "watch", in.ID, "from", b.From, "to", b.To, "by", access.Of(ctx).Name)
		}
		return rest.Answered(b, err)
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/watches/{id}/backfills", "backfills", "The newest backfills, and how far they are"), func(ctx context.Context, in *struct {
		ID string `path:"id" maxLength:"64"`
	},
	) (*backfillsOut, error) {
		out := &backfillsOut{}
		var err error
		out.Body.Backfills, err = s.Watchers.Backfills(ctx, in.ID)
		return out, err
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
