package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// speaker is the plainest program that tells listeners of heads, to show what the machine can do: it takes every
// connection for a WebSocket with a subscription, and writes a head to one after the other. It checks nothing, watches
// nobody, and ends at the first connection that has no room.
type speaker struct {
	mu    sync.Mutex
	conns []syscall.RawConn // guarded by mu
	kept  []net.Conn        // guarded by mu; of conns
}

// What a speaker says. The head is as long as the relay's.
const (
	speakerUpgrade   = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
	speakerAnswer    = `{"jsonrpc":"2.0","id":1,"result":"0x1"}`
	speakerHead      = `{"jsonrpc":"2.0","method":"eth_subscription","params":{"result":{"number":"0x%x","logsBloom":"0x%s"},"subscription":"0x1"}}`
	speakerHeadExtra = 1500
)

// textFrame is a message of a server, from 126 to 65,535 bytes long, or shorter.
func textFrame(text string) []byte {
	const textual, longer = 0x81, 126
	if len(text) < longer {
		return append([]byte{textual, byte(len(text))}, text...)
	}
	return append(binary.BigEndian.AppendUint16([]byte{textual, longer}, uint16(len(text))), text...)
}

// seat answers the handshake and the subscription of a connection.
func (s *speaker) seat(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, 1<<10)
	if _, err := http.ReadRequest(in); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, speakerUpgrade); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, in, int64(len(subscribeCall))); err != nil {
		return err
	}
	if _, err := conn.Write(textFrame(speakerAnswer)); err != nil {
		return err
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns, s.kept = append(s.conns, raw), append(s.kept, conn)
	return nil
}

// say writes a head to everybody.
func (s *speaker) say(number int64) error {
	s.mu.Lock()
	conns := slices.Clone(s.conns)
	s.mu.Unlock()
	frame := textFrame(fmt.Sprintf(speakerHead, number, strings.Repeat("0", speakerHeadExtra)))
	var failed error
	for _, conn := range conns {
		err := conn.Control(func(fd uintptr) {
			if n, err := syscall.Write(int(fd), frame); err != nil || n < len(frame) {
				failed = fmt.Errorf("%d of %d bytes were written: %w", n, len(frame), err)
			}
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
	}
	return nil
}

// speakerRole is the main function of a speaker's process.
func speakerRole(ctx context.Context, out io.Writer) error {
	s := new(speaker)
	var lc net.ListenConfig
	ws, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready := naiveReady{Naive: true, URL: "http://" + control.Addr().String(), WS: "ws://" + ws.Addr().String()}
	if err := json.NewEncoder(out).Encode(ready); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /suite/say", func(w http.ResponseWriter, r *http.Request) {
		var number int64
		if _, err := fmt.Sscan(r.URL.Query().Get("number"), &number); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := s.say(number); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: startLimit}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(control) })
	group.Go(func() error {
		for {
			conn, err := ws.Accept()
			if err != nil {
				return err
			}
			go func() {
				if err := s.seat(conn); err != nil {
					_ = conn.Close() // the audience says that it is not seated
				}
			}()
		}
	})
	group.Go(func() error {
		<-ctx.Done()
		_ = ws.Close()
		return server.Close()
	})
	return group.Wait()
}

// speaker starts one, as a relay for an audience.
func (l *lab) speaker(ctx context.Context) (*relay, error) {
	p, err := l.start("speaker", nil, l.self, "speaker")
	if err != nil {
		return nil, err
	}
	return p.asBaseline(ctx)
}

// sayAll has all speakers say a head, and returns when that began.
func sayAll(ctx context.Context, speakers []*relay, number int64) (time.Time, error) {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range speakers {
		group.Go(func() error {
			return request(ctx, http.MethodPost, fmt.Sprintf("%s/suite/say?number=%d", s.url, number), "", nil)
		})
	}
	return began, group.Wait()
}
