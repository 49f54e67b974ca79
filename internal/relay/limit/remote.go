package limit

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/outage"
	"lockstep/internal/redisx"
)

//go:embed lua/books.lua
var booksLua string

//go:embed lua/reserve.lua
var reserveLua string

//go:embed lua/settle.lua
var settleLua string

//go:embed lua/enter.lua
var enterLua string

// remote is a ledger in Redis. Each call is one script, so that processes agree, and all
// keys of a network are in one slot of a cluster: the total is one number, and whoever
// changes it is at one server anyway.
type remote struct {
	redis    *redisx.Asker
	scope    string
	lapse    time.Duration
	maxBooks int

	reserving, settling, entering *redis.Script
}

func newRemote(client redis.UniversalClient, scope string, timeout time.Duration, log *slog.Logger) *remote {
	script := func(body string) *redis.Script { return redis.NewScript(redisx.SpareLua + booksLua + "\n" + body) }
	return &remote{
		redis: redisx.NewAsker(client, redisx.AskerOptions{Timeout: timeout, Outage: &outage.Log{
			Logger: log, Upstream: "redis", Name: "spending", Level: slog.LevelWarn,
			Consequence: "each relay counts by itself what transactions cost, so a fleet can spend more than the limit",
		}}),
		scope: scope, lapse: lapse, maxBooks: maxBooks,
		reserving: script(reserveLua), settling: script(settleLua), entering: script(enterLua),
	}
}

// keys are those of a window.
func (r *remote) keys(w window) []string {
	stem := "hbarlimit:{" + r.scope + "}:" + strconv.FormatInt(w.start, 10)
	return []string{stem + ":spent", stem + ":lapses", stem + ":claims"}
}

// expiry is when the keys of a window go, in milliseconds since the Unix epoch. No claim
// outlives it.
func (r *remote) expiry(w window) int64 { return w.end + r.lapse.Milliseconds() }

func (r *remote) reserve(ctx context.Context, c claim) (answer, error) {
	args := make([]any, 0, 5+3*len(c.books))
	args = append(args, c.id, c.amount, r.lapse.Milliseconds(), r.expiry(c.window), r.maxBooks)
	for _, b := range c.books {
		args = append(args, b.name, b.limit, b.common)
	}
	reply, err := r.run(ctx, r.reserving, r.keys(c.window), args)
	if err != nil {
		return answer{}, err
	}
	if len(reply) != 1+2*len(c.books) {
		return answer{}, errReply
	}
	refused, ok := reply[0].(int64)
	changed, err := readSums(reply[1:])
	if !ok || err != nil {
		return answer{}, errReply
	}
	return answer{refused: int(refused) - 1, sums: changed}, nil
}

func (r *remote) settle(ctx context.Context, g grant, actual int64) (sums, error) {
	reply, err := r.run(ctx, r.settling, r.keys(g.window), []any{g.id, actual, r.expiry(g.window)})
	if err != nil {
		return nil, err
	}
	return readSums(reply)
}

// enter adds the amounts of a message to books, without claims.
func (r *remote) enter(ctx context.Context, process string, m *message) error {
	args := make([]any, 0, 3+2*len(m.amounts))
	args = append(args, process, m.number, r.expiry(m.window))
	for name, amount := range m.amounts {
		args = append(args, name, amount)
	}
	_, err := r.run(ctx, r.entering, r.keys(m.window), args)
	return err
}

// run runs a script. That its caller goes away does not end it: it would look like a Redis that does not answer.
func (r *remote) run(ctx context.Context, s *redis.Script, keys []string, args []any) (reply []any, err error) {
	err = r.redis.Ask(context.WithoutCancel(ctx), func(ctx context.Context, c redis.UniversalClient) (err error) {
		reply, err = s.Run(ctx, c, keys, args...).Slice()
		return err
	})
	return reply, err
}

// errReply means that the server answered with something no script of ours returns.
var errReply = errors.New("unexpected reply of a limit script")

func readSums(reply []any) (sums, error) {
	if len(reply)%2 != 0 {
		return nil, errReply
	}
	var out sums
	for i := 0; i < len(reply); i += 2 {
		name, isName := reply[i].(string)
		text, isText := reply[i+1].(string)
		if !isName || !isText {
			return nil, errReply
		}
		spent, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errReply, err)
		}
		out = append(out, sum{name, spent})
	}
	return out, nil
}
