package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"lockstep/internal/envx"
	"lockstep/internal/relay/capacity"
)

func notification(e *Event, h *capacity.Holding) frame {
	return frame{opcode: opText, subscription: "0x1", payload: e.result, event: e, holding: h}
}

// TestAnEventOfManyCountsOnce: the bytes that many connections share are as much memory as those of one, from the first that waits
// until the last one has them. So a large event, or several in a row, ends no client before the writers come to it.
func TestAnEventOfManyCountsOnce(t *testing.T) {
	const clients, events, size = 1000, 3, 2 * megabyte
	h := littleMemory().Open("notifications")
	queues := make([]*sendQueue, clients)
	for i := range queues {
		queues[i] = newSendQueue(func() {})
	}
	for range events {
		e := NewEvent(make([]byte, size))
		for i, o := range queues {
			if ok, full := o.tryPut(notification(e, h), 16*megabyte); !ok || full {
				t.Fatalf("client %d has no room for an event of %d bytes that all get", i, size)
			}
		}
	}
	const whole, each = events * size, events * frameCost
	for i, o := range queues {
		if held, want := h.Held(), int64(whole+(clients-i)*each); held != want {
			t.Fatalf("%d clients wait for %d bytes, want %d", clients-i, held, want)
		}
		o.fail()
	}
	if held := h.Held(); held != 0 {
		t.Errorf("%d bytes of nothing are held", held)
	}
}

// TestSlowClientsMakeRoom: clients that read nothing keep an event each that nobody else wants, until that is more than what is left
// for all. Then they are ended, and those who read are not.
func TestSlowClientsMakeRoom(t *testing.T) {
	const slow, size = 6, megabyte
	s := NewWSServer(testDispatcher(t, testConfig(), Options{Memory: littleMemory()}))
	reader, in := connected(t, s)
	conns := make([]*wsConn, slow)
	large := bytes.Repeat([]byte("7"), 8*size) // more than the kernel takes
	for i := range conns {
		conns[i], _ = connected(t, s)
		conns[i].Notify("0x1", NewEvent(large[:size]))
	}
	ended := 0
	for round := 0; round < 100 && ended < slow; round++ {
		ended = 0
		for _, c := range conns {
			if !c.Notify("0x1", NewEvent(large[:size])) {
				ended++
			}
		}
		small := []byte(`{"number":"0x1"}`)
		if !reader.Notify("0x1", NewEvent(small)) {
			t.Fatal("a client that reads was ended")
		}
		if _, err := io.ReadFull(in, make([]byte, reader.heard("0x1", small))); err != nil {
			t.Fatalf("a client that reads: %v", err)
		}
		if held := s.notifications.Held(); held > 8*megabyte {
			t.Fatalf("%d bytes wait, the limit is 8 MB", held)
		}
	}
	if ended < slow {
		t.Errorf("%d of %d slow clients were ended", ended, slow)
	}
}

// TestDroppedFramesAreNotWritten: what a writer has taken is not written either once the connection ends without it.
func TestDroppedFramesAreNotWritten(t *testing.T) {
	o := newSendQueue(func() {})
	large := bytes.Repeat([]byte("7"), scratchSize)
	var written bytes.Buffer
	conn := &putting{to: &written}
	waits := littleMemory().Open("10.0.0.1")
	conn.put = func() {
		conn.put = func() {}
		o.put(frame{opcode: opText, payload: large, holding: waits})
		o.drop()
		o.seal([]frame{closeFrame(websocket.ClosePolicyViolation, reasonSlow)})
	}
	w := &chunkWriter{conn: conn, timeout: patience, buf: make([]byte, 0, scratchSize)}
	holdings := []*capacity.Holding{waits}
	for range 3 {
		holdings = append(holdings, littleMemory().Open("10.0.0.1"))
	}
	for i := 1; i <= 3; i++ {
		o.put(frame{opcode: opText, payload: large, holding: holdings[i]})
	}
	if more, last, err := o.flush(w); !more || last || err != nil {
		t.Fatalf("more %v, last %v, %v", more, last, err)
	}
	if n := bytes.Count(written.Bytes(), large); n != 1 {
		t.Errorf("%d frames were written, want the one at hand", n)
	}
	for i, h := range holdings {
		if h.Take(1) == nil {
			t.Errorf("the holding of frame %d is open", i)
		}
	}
	if o.put(frame{opcode: opText, payload: large}) {
		t.Error("a frame was taken after the drop")
	}
	if _, last, err := o.flush(w); !last || err != nil || !bytes.HasSuffix(written.Bytes(), []byte(reasonSlow)) {
		t.Errorf("the close frame: last %v, %v", last, err)
	}
}

// TestDropWakesWhoWaitsForRoom: the reader of a connection may be one of those.
func TestDropWakesWhoWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newSendQueue(func() {})
		o.put(frame{opcode: opText, payload: make([]byte, queueLimit)})
		var all sync.WaitGroup
		all.Go(func() {
			if o.put(frame{opcode: opText}) {
				t.Error("a frame was taken after the drop")
			}
		})
		synctest.Wait()
		o.drop()
		all.Wait()
	})
}

// TestAWaitingWriterKeepsNoBuffer: many clients may keep a writer each waiting.
func TestAWaitingWriterKeepsNoBuffer(t *testing.T) {
	made := 0
	pool := sync.Pool{New: func() any { made++; b := make([]byte, 0, scratchSize); return &b }}
	var written bytes.Buffer
	w := &chunkWriter{timeout: patience, pool: &pool}
	waited := 0
	w.conn = &putting{to: &written, put: func() {
		if waited++; w.buf != nil || w.scratch != nil {
			t.Error("it keeps its buffer while it waits")
		}
	}}
	w.borrow()
	o := newSendQueue(func() {})
	small, large := bytes.Repeat([]byte("1"), 1000), bytes.Repeat([]byte("2"), scratchSize)
	for _, payload := range [][]byte{small, large, small} {
		o.put(frame{opcode: opText, payload: payload})
	}
	if _, _, err := o.flush(w); err != nil || waited < 3 || made == 0 {
		t.Fatalf("%d writes, %d buffers, %v", waited, made, err)
	}
	want := bytes.Join([][]byte{{0x81, 126, 3, 232}, small, {0x81, 126, 64, 0}, large, {0x81, 126, 3, 232}, small}, nil)
	if !bytes.Equal(written.Bytes(), want) {
		t.Errorf("%d bytes were written, want %d", written.Len(), len(want))
	}
}

// TestSlowClientIsEndedSoon: a client that takes what it is sent in small pieces, each just in time, is gone a moment after it was
// ended, however much a writer had taken for it.
func TestSlowClientIsEndedSoon(t *testing.T) {
	t.Run("too slow", func(t *testing.T) { endSlowClient(t, 4*time.Second, func(*websocket.Conn) {}) })
	t.Run("says goodbye", func(t *testing.T) {
		endSlowClient(t, 9*time.Second, func(ws *websocket.Conn) {
			ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
		})
	})
}

// endSlowClient tells a slow client as much as it may be told, has it end, and, if that is not enough, tells it more.
func endSlowClient(t *testing.T, limit time.Duration, end func(*websocket.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan Notifier, 1)
		c, met := testConfig(), NewMetrics()
		c.WebSocket.WriteTimeout = envx.Millis(time.Second)
		ws, _ := pipeWS(t, testDispatcher(t, c, Options{Metrics: met}, subscribing(conns)))
		send(t, ws, `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe"}`)
		receive(t, ws)
		conn := <-conns
		var reader sync.WaitGroup
		defer reader.Wait()
		reader.Go(func() {
			for piece := make([]byte, writeChunk); ; {
				time.Sleep(900 * time.Millisecond) //nolint:forbidigo // fake time
				if _, err := io.ReadFull(ws.NetConn(), piece); err != nil {
					return
				}
			}
		})
		for range 10 {
			if !conn.Notify("0x1", NewEvent(make([]byte, megabyte))) {
				t.Fatal("a notification was not taken")
			}
			time.Sleep(2 * time.Second) //nolint:forbidigo // fake time: the writer takes it
		}
		end(ws)
		for conn.Notify("0x1", NewEvent(make([]byte, megabyte))) {
		}
		ended := time.Now()
		eventually(t, func() bool { return value(met.ws.closed) == 1 })
		if took := time.Since(ended); took > limit {
			t.Errorf("it was gone after %v", took)
		}
	})
}

// subscribing is a method that hands its connections out.
func subscribing(conns chan<- Notifier) Method {
	return Method{Name: "eth_subscribe", Inline: true, AnyParams: true, WebSocketOnly: true, Handler: func(ctx context.Context, _ *Params) (any, error) {
		r, _ := FromContext(ctx)
		conns <- r.Conn
		return "0x1", nil
	}}
}

// TestBrokenProtocolIsAnsweredInOrder: a client that breaks the protocol while it is sent something large gets that whole, and then the
// close frame.
func TestBrokenProtocolIsAnsweredInOrder(t *testing.T) {
	conns := make(chan Notifier, 1)
	met := NewMetrics()
	url, _ := serveWS(t, testDispatcher(t, testConfig(), Options{Metrics: met}, subscribing(conns)))
	client := rawDial(t, url)
	client.Write(maskedFrame(`{"jsonrpc":"2.0","id":1,"method":"eth_subscribe"}`))
	conn := <-conns
	in := bufio.NewReader(client)
	if opcode, payload, err := readFrame(in); err != nil || opcode != opText {
		t.Fatalf("the answer: %x %s %v", opcode, payload, err)
	}
	large := bytes.Repeat([]byte("7"), 15<<20) // more than the kernel takes
	if !conn.Notify("0x1", NewEvent(large)) {
		t.Fatal("a notification was not taken")
	}
	if _, err := in.Peek(1); err != nil { // a writer is at it
		t.Fatal(err)
	}
	client.Write([]byte{0x80 | opText, 1, 'x'}) // it has no mask
	<-conn.Done()
	var seen []string
	for {
		opcode, payload, err := readFrame(in)
		if err != nil {
			break
		}
		switch {
		case opcode == opClose:
			seen = append(seen, fmt.Sprint("close ", binary.BigEndian.Uint16(payload)))
		case bytes.Contains(payload, large):
			seen = append(seen, "event")
		default:
			seen = append(seen, fmt.Sprintf("%x of %d bytes", opcode, len(payload)))
		}
	}
	if got := strings.Join(seen, ", "); got != "event, close 1002" {
		t.Errorf("the client got: %s", got)
	}
	if slow := value(met.ws.slow); slow != 0 {
		t.Errorf("%v slow clients", slow)
	}
}

// readFrame reads a frame without a mask.
func readFrame(r io.Reader) (opcode byte, payload []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return 0, nil, err
	}
	opcode, length := head[0]&0x0f, uint64(head[1])
	switch length {
	case 126:
		_, err = io.ReadFull(r, head[:2])
		length = uint64(binary.BigEndian.Uint16(head[:2]))
	case 127:
		_, err = io.ReadFull(r, head[:])
		length = binary.BigEndian.Uint64(head[:])
	}
	if err != nil || length > 64<<20 {
		return 0, nil, fmt.Errorf("a frame of %d bytes: %w", length, err)
	}
	payload = make([]byte, length)
	_, err = io.ReadFull(r, payload)
	return opcode, payload, err
}

// TestAnAnswerWaitsForWhatWasBeforeIt: notifications that come later do not keep it waiting.
func TestAnAnswerWaitsForWhatWasBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newSendQueue(func() {})
		first := frame{opcode: opText, payload: make([]byte, queueLimit)}
		o.put(first)
		var answered sync.WaitGroup
		answered.Go(func() { o.put(frame{opcode: opText}) })
		synctest.Wait()
		if ok, _ := o.tryPut(frame{opcode: opText, payload: make([]byte, 2*queueLimit)}, 4*queueLimit); !ok {
			t.Fatal("a frame was not taken")
		}
		o.written(first.cost())
		answered.Wait()
	})
}
