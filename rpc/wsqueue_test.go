package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"lockstep/internal/envx"
	"lockstep/internal/must"
)

// queueOver is a queue that writes to a connection, and what the client has of it. Nothing is written before the client reads.
func queueOver(t *testing.T) (o *sendQueue, client net.Conn) {
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	return &sendQueue{writers: new(writers), conn: near, timeout: patience, notice: noticeHead(testNotification), failed: func(error) {}, written: make(chan struct{})}, far
}

// TestAnEventOfManyCountsOnce: the bytes that many connections share are as much memory as those of one, from the first that waits
// until the last one has them. So a large event, or several in a row, ends no client before its bytes are written.
func TestAnEventOfManyCountsOnce(t *testing.T) {
	const clients, size = 1000, 2 * megabyte
	h := littleMemory().Open("notifications")
	e := NewEvent(make([]byte, size))
	for i := range clients {
		if !e.hold(h) {
			t.Fatalf("client %d has no room for an event of %d bytes that all get", i, size)
		}
	}
	for left := clients; left > 0; left-- {
		if held, want := h.Held(), int64(size+left*frameCost); held != want {
			t.Fatalf("%d clients wait for %d bytes, want %d", left, held, want)
		}
		e.release()
	}
	if held := h.Held(); held != 0 {
		t.Errorf("%d bytes of nothing are held", held)
	}
}

// TestSlowClientsMakeRoom: clients that read nothing keep events that nobody else wants, until that is more than there is for all. Then
// they are ended, and those who read are not.
func TestSlowClientsMakeRoom(t *testing.T) {
	const slow = 6
	conns, met := make(chan Notifier, 1), NewMetrics()
	url, _ := serveWS(t, testDispatcher(t, testConfig(), Options{Memory: littleMemory(), Metrics: met}, subscribing(conns)))
	subscribed := func() (net.Conn, Notifier) {
		client := rawDial(t, url)
		client.Write(maskedFrame(`{"jsonrpc":"2.0","id":1,"method":"eth_subscribe"}`))
		conn := <-conns
		must.Get2(readFrame(client))(t)
		return client, conn
	}
	in, reader := subscribed()
	var stuck []Notifier
	for range slow {
		client, conn := subscribed()
		client.(*net.TCPConn).SetReadBuffer(4 << 10)
		stuck = append(stuck, conn)
	}
	large := bytes.Repeat([]byte("7"), megabyte)
	for round := 0; round < 100 && value(met.ws.slow) < slow; round++ {
		for _, conn := range stuck {
			conn.Notify("0x1", NewEvent(large))
		}
		if !reader.Notify("0x1", NewEvent([]byte("1"))) {
			t.Fatal("a client that reads was ended")
		}
		must.Get2(readFrame(in))(t)
	}
	if ended := value(met.ws.slow); ended != slow {
		t.Errorf("%v of %d slow clients were ended", ended, slow)
	}
}

// TestDroppedFramesAreNotWritten: once a connection ends without what waits for it, its client gets the frame at hand and the last one.
func TestDroppedFramesAreNotWritten(t *testing.T) {
	o, client := queueOver(t)
	free := make(chan int, 4)
	put := func(i int) bool {
		ok, _ := o.put(frame{opcode: opText, payload: [][]byte{make([]byte, writeChunk)}, free: func() { free <- i }}, queueLimit)
		return ok
	}
	put(0)
	var head [10]byte
	must.Get(io.ReadFull(client, head[:]))(t) // it is being written
	put(1)
	put(2)
	o.drop()
	o.seal([]frame{closeFrame(websocket.ClosePolicyViolation, reasonSlow)})
	if put(3) {
		t.Error("a frame was taken after the drop")
	}
	if a, b, c := <-free, <-free, <-free; a+b+c != 6 {
		t.Errorf("freed before anything was written: %d, %d, %d", a, b, c)
	}
	must.Get(io.CopyN(io.Discard, client, writeChunk))(t)
	if opcode, _ := must.Get2(readFrame(client))(t); opcode != opClose {
		t.Errorf("opcode %d, want a close frame", opcode)
	}
	if i := <-free; i != 0 {
		t.Errorf("frame %d was freed", i)
	}
	<-o.written
}

// TestUnreadAnswersAreMessagesInProgress: a client that does not read its answers is read no further than it may have messages in
// progress.
func TestUnreadAnswersAreMessagesInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, calls = 2, 5
		c := testConfig()
		c.WebSocket.MaxInFlight = most
		handled := 0
		ws, _ := pipeWS(t, testDispatcher(t, c, Options{}, Method{Name: "eth_chainId", Inline: true, AnyParams: true, Handler: func(context.Context, *Params) (any, error) {
			handled++
			return "0x12a", nil
		}}))
		go func() {
			for range calls {
				send(t, ws, chainIDCall)
			}
		}()
		synctest.Wait()
		if handled != most {
			t.Errorf("%d calls were handled, want %d", handled, most)
		}
		for range calls {
			receive(t, ws)
		}
		if handled != calls {
			t.Errorf("%d calls were handled, want all %d", handled, calls)
		}
	})
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

var errBadFrame = errors.New("a frame that a server never sends: masked, in parts, or with reserved bits")

// readFrame reads a frame without a mask.
func readFrame(r io.Reader) (opcode byte, payload []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return 0, nil, err
	}
	if head[0]&0xf0 != 0x80 || head[1]&0x80 != 0 {
		return 0, nil, errBadFrame
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
