package locksim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// client makes a relay's client of Redis. Its commands take the way through travel instead of a connection; a
// subscription has a connection, since its messages keep their order.
func (r *relay) client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: "redis:6379", Protocol: 2, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
		PipelinePoolSize: -1, PoolSize: 64, Dialer: r.dial,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c.AddHook(hook{r})
	return c
}

type hook struct{ r *relay }

// DialHook implements redis.Hook.
func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h hook) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return h.r.travel(ctx, []redis.Cmder{cmd}) }
}

// ProcessPipelineHook implements redis.Hook.
func (h hook) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return h.r.travel(ctx, cmds) }
}

// errCut is what a process hears of a connection that ended.
var errCut = fmt.Errorf("simulated: %w", io.EOF)

// packet is what a call's answer consists of.
type packet struct {
	replies []any
	errs    []error
	err     error // no answer: the connection ended
}

// travel takes commands to the server and the answer back.
func (r *relay) travel(ctx context.Context, cmds []redis.Cmder) error {
	if len(cmds) == 0 || cmds[0].Name() == "hello" {
		return nil
	}
	words := make([][]string, len(cmds))
	for i, c := range cmds {
		words[i] = texts(c.Args())
	}
	r.stand()
	answer := make(chan packet, 1)
	fate := r.send(words, answer)
	var got packet
	select {
	case got = <-answer:
	case <-ctx.Done():
		// Calls that began together give up together, and timers of one instant go off in an order that no seed
		// decides: each caller notices a moment later that is its own.
		<-time.After(fate.there % time.Microsecond)
		r.stand() // a process that stood still may find the answer as well
		select {
		case got = <-answer:
		default:
			return ctx.Err()
		}
	}
	r.stand()
	if got.err != nil {
		return got.err
	}
	var first error
	for i, c := range cmds {
		err := got.errs[i]
		if err == nil {
			err = fill(c, got.replies[i])
		}
		if err != nil {
			c.SetErr(err)
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// send sets a call on its way: what happens to it is drawn from the seed, the relay, and how many calls of
// its kind the relay has made, so that it does not depend on which goroutine runs first.
func (r *relay) send(words [][]string, answer chan<- packet) fate {
	w := r.w
	fate, at := w.fate(r, words[0]), w.now()
	if r.isDead() {
		answer <- packet{err: errCut}
		return fate
	}
	reply := func() {
		p := packet{replies: make([]any, len(words)), errs: make([]error, len(words))}
		for i := range words {
			if fate.twice { // as if its answer had been lost, and it had been asked again
				_, _ = w.server.execute(r, at, words[i])
			}
			if p.replies[i], p.errs[i] = w.server.execute(r, at, words[i]); p.errs[i] != nil {
				p.errs[i] = replyError(p.errs[i].Error())
			}
		}
		switch fate.loss {
		case lostReply:
		case cutReply:
			time.AfterFunc(fate.back, func() { answer <- packet{err: errCut} })
		default:
			time.AfterFunc(fate.back, func() { answer <- p })
		}
	}
	time.AfterFunc(fate.there, func() {
		switch way := r.reach(); {
		case way == refused:
			answer <- packet{err: errCut}
		case way == silent || fate.loss == lostRequest:
		default:
			reply()
		}
	})
	return fate
}

func texts(args []any) []string {
	out := make([]string, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case string:
			out[i] = a
		case []byte:
			out[i] = string(a)
		default:
			out[i] = fmt.Sprint(a)
		}
	}
	return out
}

// replyError is an error that the server answered with.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (e replyError) RedisError() {}

var errReplyKind = errors.New("simulated: a reply that the command cannot take")

// fill gives a reply to the command that waits for it.
func fill(c redis.Cmder, reply any) error {
	switch c := c.(type) {
	case *redis.Cmd:
		switch v := reply.(type) {
		case nil:
			return redis.Nil
		case status:
			c.SetVal(string(v))
		default:
			c.SetVal(v)
		}
		return nil
	case *redis.IntCmd:
		if n, ok := reply.(int64); ok {
			c.SetVal(n)
			return nil
		}
	case *redis.BoolCmd:
		if n, ok := reply.(int64); ok {
			c.SetVal(n == 1)
			return nil
		}
	case *redis.StringCmd:
		switch v := reply.(type) {
		case nil:
			return redis.Nil
		case string:
			c.SetVal(v)
			return nil
		}
	case *redis.SliceCmd:
		if v, ok := reply.([]any); ok {
			c.SetVal(v)
			return nil
		}
	case *redis.MapStringStringCmd:
		if v, ok := reply.([]any); ok {
			m := make(map[string]string, len(v)/2)
			for i := 0; i+1 < len(v); i += 2 {
				m[v[i].(string)], _ = v[i+1].(string)
			}
			c.SetVal(m)
			return nil
		}
	}
	return fmt.Errorf("%w: %s", errReplyKind, c.Name())
}

// subscription is the server's end of one connection of Pub/Sub.
type subscription struct {
	relay   *relay
	conn    net.Conn
	channel string
	done    chan struct{}
	once    sync.Once

	mu    sync.Mutex // guards the two below
	last  time.Time  // when the last message arrives
	lines chan line
}

type line struct {
	at   time.Time
	text string
}

// backlog is how many messages may be on their way to one relay.
const backlog = 1024

// dial makes a connection for a subscription.
func (r *relay) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	r.hold(&r.waiting, ctx.Done()) // the client closes a subscription only when nobody connects for it
	there := r.w.fate(r, []string{"dial", "", "", ""}).there
	select {
	case <-time.After(there):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.hold(&r.waiting, ctx.Done())
	if r.isDead() || r.reach() != reachable {
		return nil, errCut
	}
	ours, theirs := net.Pipe()
	sub := &subscription{relay: r, conn: theirs, done: make(chan struct{}), lines: make(chan line, backlog)}
	r.w.background.Go(sub.listen)
	r.w.background.Go(sub.deliver)
	return ours, nil
}

// listen waits for what to subscribe to, and then for the end.
func (s *subscription) listen() {
	defer s.end()
	buffer := make([]byte, 4096)
	for {
		n, err := s.conn.Read(buffer)
		if err != nil {
			return
		}
		words := strings.Split(string(buffer[:n]), "\r\n")
		if len(words) < 5 || !strings.EqualFold(words[2], "subscribe") {
			continue
		}
		server := s.relay.w.server
		server.mu.Lock()
		s.channel = words[4]
		server.subs = append(server.subs, s)
		s.push("*3\r\n" + bulk("subscribe") + bulk(s.channel) + ":1\r\n")
		server.mu.Unlock()
	}
}

func bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

// queue sends a message.
func (s *subscription) queue(payload string) {
	s.push("*3\r\n" + bulk("message") + bulk(s.channel) + bulk(payload))
}

// push sends text: none arrives before one that was sent before.
func (s *subscription) push(text string) {
	fate := s.relay.w.fate(s.relay, []string{"push", "", "", s.channel})
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := time.Now().Add(fate.there); at.After(s.last) {
		s.last = at
	} else {
		s.last = s.last.Add(1)
	}
	select {
	case s.lines <- line{s.last, text}:
	default: // nobody reads any more
	}
}

// deliver writes what was sent, when it arrives.
func (s *subscription) deliver() {
	for {
		select {
		case <-s.done:
			return
		case l := <-s.lines:
			select {
			case <-time.After(time.Until(l.at)):
			case <-s.done:
				return
			}
			for s.relay.reach() != reachable { // it arrives late, if the connection lives
				select {
				case <-time.After(20 * time.Millisecond):
				case <-s.done:
					return
				}
			}
			s.relay.stand()
			if _, err := s.conn.Write([]byte(l.text)); err != nil {
				return
			}
		}
	}
}

func (s *subscription) end() {
	s.once.Do(func() {
		close(s.done)
		_ = s.conn.Close() // it is of no use any more, whatever it says
	})
}
