package rpc

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/must"
)

// queued is a two-phase method that waits as long as the test wants, whatever its
// context says.
type queued struct {
	begun   chan context.Context
	release chan struct{}
	result  func() (any, error)
}

func newQueued(result func() (any, error)) *queued {
	return &queued{begun: make(chan context.Context, 200), release: make(chan struct{}), result: result}
}

func (q *queued) method() Method {
	return Method{Name: "eth_queued", AnyParams: true, Enter: func(context.Context, *Params) (Finish, error) {
		return FinishFunc(func(ctx context.Context) (any, error) {
			q.begun <- ctx
			<-q.release
			return q.result()
		}), nil
	}}
}

const queuedCall = `{"jsonrpc":"2.0","id":1,"method":"eth_queued"}`

// TestLoneCallHasNoTimeout: a two-phase call that is alone in its message is answered
// when it ends, and other calls, and batches, in time.
func TestLoneCallHasNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig()
		c.HTTP.RequestTimeout = envx.Millis(10 * time.Millisecond)
		polite := Method{Name: "eth_polite", AnyParams: true, Handler: func(ctx context.Context, _ *Params) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		q := newQueued(func() (any, error) { return "done", nil })
		ws, _ := pipeWS(t, testDispatcher(t, c, Options{}, q.method(), polite))
		send(t, ws, queuedCall)
		ctx := <-q.begun
		if _, limited := ctx.Deadline(); limited {
			t.Error("the call has a deadline")
		}
		if r, ok := FromContext(ctx); !ok || r.Transport != TransportWebSocket {
			t.Errorf("the call has the request %v", r)
		}
		send(t, ws, call1("eth_polite"))
		compareJSON(t, "the other call", receive(t, ws), timedOut)
		send(t, ws, "["+queuedCall+"]")
		compareJSON(t, "the batch", receive(t, ws), "["+timedOut+"]")
		if ctx.Err() != nil {
			t.Error("the call was cancelled")
		}
		close(q.release)
		compareJSON(t, "the call", receive(t, ws), `{"result":"done","jsonrpc":"2.0","id":1}`)
	})
}

// TestLoneCallOutlivesItsConnection: the server forgets a connection whose client has
// gone although a call of it goes on.
func TestLoneCallOutlivesItsConnection(t *testing.T) {
	met := NewMetrics()
	sent := make(chan bool, 1)
	q := newQueued(func() (any, error) { return &Answer{Result: "x", Sent: func(ok bool) { sent <- ok }}, nil })
	url, _ := serveWS(t, testDispatcher(t, testConfig(), Options{Metrics: met}, q.method()))
	ws := dial(t, url, nil)
	send(t, ws, queuedCall)
	ctx := <-q.begun
	ws.Close()
	<-ctx.Done()
	eventually(t, func() bool { return value(met.ws.active) == 0 })
	if value(met.inFlight) != 1 {
		t.Error("the call is not in progress any more")
	}
	close(q.release)
	if <-sent {
		t.Error("an answer that nobody could get was said to be sent")
	}
	eventually(t, func() bool { return value(met.inFlight) == 0 })
}

// patient is a two-phase method whose turn comes when the test says so.
type patient struct {
	queued
	told chan func()
	no   atomic.Bool // it will not tell
}

func (p *patient) method() Method {
	return Method{Name: "eth_queued", AnyParams: true, Enter: func(context.Context, *Params) (Finish, error) { return p, nil }}
}

// Run implements Finish.
func (p *patient) Run(ctx context.Context) (any, error) {
	p.begun <- ctx
	return p.result()
}

// Notify implements Patient.
func (p *patient) Notify(_ context.Context, f func()) bool {
	no := p.no.Load()
	if !no {
		p.told <- f
	}
	return !no
}

// TestPatientCall: a call that tells when its turn has come is run then and not before,
// alone or in a batch, over WebSocket or HTTP, and others are answered meanwhile; one that
// does not tell is run at once.
func TestPatientCall(t *testing.T) {
	p := &patient{queued: *newQueued(func() (any, error) { return "done", nil }), told: make(chan func(), 1)}
	d := testDispatcher(t, testConfig(), Options{}, p.method())
	url, _ := serveWS(t, d)
	ws := dial(t, url, nil)
	const done = `{"result":"done","jsonrpc":"2.0","id":1}`

	send(t, ws, queuedCall)
	turn := <-p.told
	send(t, ws, "["+queuedCall+"]")
	turnOfBatch := <-p.told
	if len(p.begun) > 0 {
		t.Error("a call ran before its turn")
	}
	turnOfBatch()
	compareJSON(t, "the batch", receive(t, ws), "["+done+"]")
	turn()
	compareJSON(t, "the call", receive(t, ws), done)

	plain := serveHTTP(t, d, HTTPOptions{})
	answers := make(chan string, 1)
	go func() {
		_, answer := post(t, plain, queuedCall)
		answers <- answer
	}()
	turn = <-p.told
	if len(p.begun) != 2 {
		t.Errorf("%d calls have run, want 2", len(p.begun))
	}
	turn()
	compareJSON(t, "the call over HTTP", <-answers, done)

	p.no.Store(true)
	send(t, ws, queuedCall)
	compareJSON(t, "the call that does not tell", receive(t, ws), done)
}

// TestSuspendedRequest: a request over HTTP whose call waits for its turn is answered once: when the call has run, or when its time is up, or not at all if its client has gone. A call whose turn comes after that
// runs all the same, and hears that nobody got its answer.
func TestSuspendedRequest(t *testing.T) {
	sent := make(chan bool, 1)
	p := &patient{queued: *newQueued(func() (any, error) { return &Answer{Result: "done", Sent: func(ok bool) { sent <- ok }}, nil }), told: make(chan func(), 1)}
	c := testConfig()
	met := NewMetrics()
	url := serveHTTP(t, testDispatcher(t, c, Options{Metrics: met}, p.method()), HTTPOptions{})
	c.HTTP.RequestTimeout = envx.Millis(300 * time.Millisecond)
	hasty := serveHTTP(t, testDispatcher(t, c, Options{}, p.method()), HTTPOptions{})
	const done = `{"result":"done","jsonrpc":"2.0","id":1}`

	t.Run("turn in time", func(t *testing.T) {
		go func() { (<-p.told)() }()
		_, answer := post(t, url, queuedCall)
		compareJSON(t, "answer", answer, done)
		if <-p.begun; !<-sent {
			t.Error("the answer was said not to be sent")
		}
	})
	t.Run("turn too late", func(t *testing.T) {
		compareJSON(t, "answer", postUntilAnswered(t, hasty, queuedCall), timedOut)
		(<-p.told)()
		if <-sent {
			t.Error("an answer that came too late was said to be sent")
		}
		<-p.begun
	})
	t.Run("client gone", func(t *testing.T) {
		conn := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
		must.Get(fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(queuedCall), queuedCall))(t)
		turn := <-p.told
		conn.Close()
		eventually(t, func() bool { return value(met.inFlight) == 0 })
		turn()
		if <-sent {
			t.Error("an answer that nobody could get was said to be sent")
		}
	})
}
