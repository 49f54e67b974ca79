package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/gorilla/websocket"
)

// answer is what a client was told about one transaction it sent.
type answer struct {
	tx    *transaction
	relay string
	hash  common.Hash // the result, if refusal and lost are nil
	// refusal is the relay's error.
	refusal *refusal
	// lost says that no answer came: the connection broke.
	lost error
	took time.Duration
}

func (a answer) ok() bool { return a.refusal == nil && a.lost == nil }

// says tells whether the relay refused with these words.
func (a answer) says(text string) bool {
	return a.refusal != nil && strings.Contains(strings.ToLower(a.refusal.Message), text)
}

// Words of refusals.
const (
	tooLow   = "nonce too low"
	tooHigh  = "nonce too high"
	turnLost = "not submitted in its turn"
	stopping = "shutting down"
)

func (a answer) String() string {
	switch {
	case a.lost != nil:
		return fmt.Sprintf("%v at %s: no answer after %v: %v", a.tx, a.relay, a.took.Round(time.Millisecond), a.lost)
	case a.refusal != nil:
		return fmt.Sprintf("%v at %s: %v after %v", a.tx, a.relay, a.refusal, a.took.Round(time.Millisecond))
	default:
		return fmt.Sprintf("%v at %s: accepted after %v", a.tx, a.relay, a.took.Round(time.Millisecond))
	}
}

// refusal is a JSON-RPC error.
type refusal struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *refusal) String() string { return fmt.Sprintf("%d %s %s", e.Code, e.Message, e.Data) }

// open tells whether the relay said that it does not know the outcome.
func (e *refusal) open() bool {
	var data struct{ Provisional bool }
	return json.Unmarshal(e.Data, &data) == nil && data.Provisional
}

type request struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

type reply struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *refusal        `json:"error"`
}

// submission is the request body for transactions, with ids from first on: one
// call, or a batch.
func submission(first int, txs []*transaction) []byte {
	calls := make([]request, len(txs))
	for i, tx := range txs {
		calls[i] = request{"2.0", first + i, "eth_sendRawTransaction", []any{tx.raw}}
	}
	var body any = calls
	if len(calls) == 1 {
		body = calls[0]
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return text
}

// readReplies reads one answer or an array of them.
func readReplies(body []byte) ([]reply, error) {
	var all []reply
	if trimmed := bytes.TrimSpace(body); len(trimmed) == 0 || trimmed[0] != '[' {
		all = make([]reply, 1)
		return all, json.Unmarshal(body, &all[0])
	}
	return all, json.Unmarshal(body, &all)
}

func newAnswer(tx *transaction, r *relay, got reply, sent time.Time) answer {
	a := answer{tx: tx, relay: r.name, refusal: got.Error, took: time.Since(sent)}
	if got.Error == nil {
		a.lost = json.Unmarshal(got.Result, &a.hash)
	}
	return a
}

// post sends transactions in one HTTP request and waits for the answers.
func (r *relay) post(ctx context.Context, txs ...*transaction) []answer {
	sent := time.Now()
	replies, err := r.roundTrip(ctx, submission(0, txs))
	answers := make([]answer, len(txs))
	for i, tx := range txs {
		at := slices.IndexFunc(replies, func(got reply) bool { return got.ID != nil && *got.ID == i })
		switch {
		case err != nil:
			answers[i] = answer{tx: tx, relay: r.name, lost: err, took: time.Since(sent)}
		case at < 0:
			answers[i] = answer{tx: tx, relay: r.name, lost: fmt.Errorf("no reply with its id among %d", len(replies)), took: time.Since(sent)}
		default:
			answers[i] = newAnswer(tx, r, replies[at], sent)
		}
	}
	return answers
}

func (r *relay) roundTrip(ctx context.Context, body []byte) ([]reply, error) {
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, r.http, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(post)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return readReplies(text)
}

// call makes one call that must succeed.
func (r *relay) call(method string, params ...any) json.RawMessage {
	t := r.net.t
	t.Helper()
	body, err := json.Marshal(request{"2.0", 1, method, params})
	if err != nil {
		t.Fatal(err)
	}
	replies, err := r.roundTrip(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	if replies[0].Error != nil {
		t.Fatalf("%s: %v", method, replies[0].Error)
	}
	return replies[0].Result
}

// burst collects the answers to everything a test sends.
type burst struct {
	net *network

	mu      sync.Mutex // guards all below
	answers []answer
	open    map[*transaction]int // sent and not answered
	changed chan struct{}        // closed and replaced whenever one is answered
}

func newBurst(n *network) *burst {
	return &burst{net: n, open: map[*transaction]int{}, changed: make(chan struct{})}
}

func (b *burst) sent(txs ...*transaction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, tx := range txs {
		b.open[tx]++
	}
}

func (b *burst) answered(answers ...answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range answers {
		if b.open[a.tx]--; b.open[a.tx] == 0 {
			delete(b.open, a.tx)
		}
	}
	b.answers = append(b.answers, answers...)
	close(b.changed)
	b.changed = make(chan struct{})
}

// post sends transactions over HTTP, several as one batch, and does not wait.
func (b *burst) post(r *relay, txs ...*transaction) {
	b.postUntil(b.net.t.Context(), r, txs...)
}

// postUntil is post by a client that goes away when ctx ends.
func (b *burst) postUntil(ctx context.Context, r *relay, txs ...*transaction) {
	b.sent(txs...)
	go func() { b.answered(r.post(ctx, txs...)...) }()
}

// insist sends to the first relay and, when that does not answer or is shutting
// down, to the next, as a client with several URLs does.
func (b *burst) insist(relays []*relay, tx *transaction) {
	b.sent(tx)
	go func() {
		for i, r := range relays {
			got := r.post(b.net.t.Context(), tx)[0]
			again := i < len(relays)-1 && (got.lost != nil || got.says(stopping))
			if again {
				b.sent(tx)
			}
			b.answered(got)
			if !again {
				return
			}
		}
	}()
}

// travel sends one transaction after the other to the relays in turn, each when the
// one before is answered, until the returned function is called. It stops at the
// first failure, since what follows would be a gap.
func (b *burst) travel(s *sender, relays []*relay) (arrive func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			tx := s.pay(1)[0]
			b.sent(tx)
			got := relays[i%len(relays)].post(b.net.t.Context(), tx)[0]
			b.answered(got)
			if !got.ok() {
				return
			}
		}
	}()
	return func() {
		close(stop)
		select {
		case <-stopped:
		case <-time.After(normal): // wait tells what is not answered
		}
	}
}

// pending gives how many are not answered, and a channel that is closed when that changes.
func (b *burst) pending() (int, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open), b.changed
}

// wait returns the answers to all that was sent. It fails when one does not come
// within the normal time after the last was sent, or after trouble's end.
func (b *burst) wait() []answer {
	b.net.t.Helper()
	return b.waitFor(normal)
}

func (b *burst) waitFor(limit time.Duration) []answer {
	b.net.t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		count, changed := b.pending()
		if count == 0 {
			break
		}
		select {
		case <-changed:
		case <-deadline.C:
			b.net.check(b.all(), allowance{lost: anybody}) // what went wrong with the others tells why
			b.net.t.Fatalf("%d transactions are not answered %v after the last was sent: %v", count, limit, b.unanswered())
		}
	}
	return b.all()
}

func (b *burst) unanswered() []*transaction {
	b.mu.Lock()
	defer b.mu.Unlock()
	var txs []*transaction
	for tx := range b.open {
		txs = append(txs, tx)
	}
	return txs
}

// all gives the answers so far, in the order in which they came.
func (b *burst) all() []answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.answers)
}

// about waits for an answer to tx, and returns the first.
func (b *burst) about(tx *transaction) answer {
	b.net.t.Helper()
	var found answer
	until(b.net.t, normal, "an answer to "+tx.String(), func() bool {
		all := b.all()
		i := slices.IndexFunc(all, func(a answer) bool { return a.tx == tx })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// socket is a WebSocket client. What it sends arrives in the order in which it
// was sent, without waiting for answers.
type socket struct {
	burst *burst
	relay *relay
	conn  *websocket.Conn

	mu   sync.Mutex // guards all below, and writes
	next int
	open map[int]sentAt
	err  error // why the connection ended
}

type sentAt struct {
	tx   *transaction
	time time.Time
}

// dial connects to a relay's WebSocket.
func (b *burst) dial(r *relay) *socket {
	t := b.net.t
	t.Helper()
	conn, response, err := websocket.DefaultDialer.DialContext(t.Context(), r.ws, nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	s := &socket{burst: b, relay: r, conn: conn, open: map[int]sentAt{}}
	go s.read()
	t.Cleanup(func() { conn.Close() })
	return s
}

// send sends transactions in one message, several as a batch.
func (s *socket) send(txs ...*transaction) {
	s.burst.sent(txs...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		for _, tx := range txs {
			s.burst.answered(answer{tx: tx, relay: s.relay.name, lost: s.err})
		}
		return
	}
	body := submission(s.next, txs)
	for i, tx := range txs {
		s.open[s.next+i] = sentAt{tx, time.Now()}
	}
	s.next += len(txs)
	if err := s.conn.WriteMessage(websocket.TextMessage, body); err != nil {
		s.conn.Close() // the reader tells the clients
	}
}

func (s *socket) read() {
	for {
		_, body, err := s.conn.ReadMessage()
		if err != nil {
			s.end(err)
			return
		}
		replies, err := readReplies(body)
		if err != nil {
			s.end(err)
			return
		}
		for _, got := range replies {
			s.take(got)
		}
	}
}

func (s *socket) take(got reply) {
	if got.ID == nil {
		s.end(errors.New("a reply without an id"))
		return
	}
	s.mu.Lock()
	sent, known := s.open[*got.ID]
	delete(s.open, *got.ID)
	s.mu.Unlock()
	if known {
		s.burst.answered(newAnswer(sent.tx, s.relay, got, sent.time))
	}
}

func (s *socket) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	for id, sent := range s.open {
		delete(s.open, id)
		s.burst.answered(answer{tx: sent.tx, relay: s.relay.name, lost: err, took: time.Since(sent.time)})
	}
}
