package fleet

import (
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"lockstep/internal/must"
)

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
	conn, response := must.Get2((&websocket.Dialer{HandshakeTimeout: normal}).DialContext(t.Context(), r.ws, nil))(t)
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
	if got.ID == nil && got.Error == nil {
		return // a ping, as established relays send it
	}
	if got.ID == nil {
		s.end(fmt.Errorf("a reply without an id: %v", got.Error))
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
