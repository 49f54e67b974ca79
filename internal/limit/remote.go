package limit

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

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
	client   redis.UniversalClient
	scope    string
	lapse    time.Duration
	maxBooks int
	timeout  time.Duration

	reserving, settling, entering *redis.Script
}

func newRemote(client redis.UniversalClient, scope string, lapse time.Duration, maxBooks int, timeout time.Duration) *remote {
	script := func(body string) *redis.Script { return redis.NewScript(redisx.SpareLua + booksLua + "\n" + body) }
	return &remote{
		client: client, scope: scope, lapse: lapse, maxBooks: maxBooks, timeout: timeout,
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
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	return r.entering.Run(ctx, r.client, r.keys(m.window), args...).Err()
}

// ping tells whether Redis answers.
func (r *remote) ping(ctx context.Context) error {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	return r.client.Ping(ctx).Err()
}

func (r *remote) run(ctx context.Context, s *redis.Script, keys []string, args []any) ([]any, error) {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	return s.Run(ctx, r.client, keys, args...).Slice()
}

// deadline bounds a call. That its caller goes away does not end it: it would look like
// a Redis that does not answer.
func (r *remote) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
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
