package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

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

type backfillOut struct{ Body watch.Backfill }

type backfillsOut struct {
	Body struct {
		Backfills []watch.Backfill `json:"backfills"`
	}
}

func (s *Server) routes() {
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/watches", "watches", "What is followed, and how far it is"), func(ctx context.Context, _ *struct{}) (*watchesOut, error) {
		out := &watchesOut{}
		var err error
		out.Body.Watches, err = s.Watchers.States(ctx)
		return out, err
	})
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/contracts", "contracts", "The contracts that are followed"), func(ctx context.Context, in *contractsIn) (*contractsOut, error) {
		out := &contractsOut{}
		var err error
		out.Body.Contracts, out.Body.Cursor, err = s.Watchers.Contracts(ctx, in.Watch, in.Status, in.Cursor, in.Limit)
		return out, err
	})
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/events", "events", "What was handed on, in an order that never changes"), func(ctx context.Context, in *eventsIn) (*eventsOut, error) {
		after, err := place(in.Cursor)
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
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/nodes", "nodes", "The processes of the fleet"), func(ctx context.Context, _ *struct{}) (*nodesOut, error) {
		out := &nodesOut{}
		var err error
		out.Body.Nodes, err = s.Watchers.Nodes(ctx)
		return out, err
	})
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/sinks", "sinks", "How far the sinks are"), func(ctx context.Context, _ *struct{}) (*sinksOut, error) {
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
	start := operation(access.RoleAdmin, http.MethodPost, "/v1/watches/{id}/backfill", "backfill", "Read blocks again, and hand on what was missed", http.StatusNotFound)
	start.DefaultStatus = http.StatusAccepted
	register(s, start, func(ctx context.Context, in *backfillIn) (*backfillOut, error) {
		b, err := s.Watchers.StartBackfill(ctx, watch.Backfill{Watch: in.ID, From: in.From, Repeat: in.Repeat, Act: in.Act}, in.To.number())
		if err == nil {
			s.Log.InfoContext(ctx, "a backfill begins", "watch", in.ID, "from", b.From, "to", b.To, "by", access.Of(ctx).Name)
		}
		return &backfillOut{b}, err
	})
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/watches/{id}/backfills", "backfills", "The newest backfills, and how far they are"), func(ctx context.Context, in *struct {
		ID string `path:"id" maxLength:"64"`
	},
	) (*backfillsOut, error) {
		out := &backfillsOut{}
		var err error
		out.Body.Backfills, err = s.Watchers.Backfills(ctx, in.ID)
		return out, err
	})
}

// place reads a cursor of the messages.
func place(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, watch.ErrCursor
	}
	return n, nil
}

func (s *Server) health(mux *http.ServeMux) {
	answer := func(w http.ResponseWriter, status int, body any) {
		text, _ := json.Marshal(body) // plain fields
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(text) // who is gone needs no answer
	}
	mux.HandleFunc("GET /health/liveness", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /health/readiness", func(w http.ResponseWriter, r *http.Request) {
		c := s.Watchers.Condition(r.Context())
		status := http.StatusOK
		if !c.Ready {
			status = http.StatusServiceUnavailable
		}
		answer(w, status, c)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if err := access.Allowed(r.Context(), access.RoleRead); err != nil {
			s.problem(r.Context(), err).write(w)
			return
		}
		s.Metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p := &Problem{Code: "NOT_FOUND"}
		p.Status, p.Title, p.Detail = http.StatusNotFound, http.StatusText(http.StatusNotFound), "there is no "+r.Method+" of this path"
		p.write(w)
	})
}
