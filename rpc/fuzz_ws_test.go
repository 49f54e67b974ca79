package rpc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// FuzzFrames: whatever bytes come after the handshake, the server answers with whole,
// unmasked frames and ends the connection when the client has said everything.
func FuzzFrames(f *testing.F) {
	call := maskedFrame(chainIDCall)
	for _, seed := range [][]byte{
		{},
		call, append(call, call...),
		{0x88, 0x80, 0, 0, 0, 0},
		{0x88, 0x82, 1, 2, 3, 4, 5, 6},
		{0x89, 0x80, 0, 0, 0, 0},
		{0x81, 0x00},
		{0xff, 0xff},
		{0x01, 0x81, 0, 0, 0, 0, '['},
		{0x80, 0x81, 0, 0, 0, 0, ']'},
		{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		{0x81, 0xfe, 0, 1, 0, 0, 0, 0, '{'},
		{0x82, 0x84, 0, 0, 0, 0, 0xff, 0xfe, 0xfd, 0},
		{0xc1, 0x81, 0, 0, 0, 0, '1'},
	} {
		f.Add(seed)
	}
	c := testConfig()
	c.WebSocket.ConnectionLimit, c.WebSocket.ConnectionLimitPerIP = 1000, 1000
	url, _ := serveWS(f, testDispatcher(f, c, Options{}))
	f.Fuzz(func(t *testing.T, input []byte) {
		conn := rawDial(t, url)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		go func() {
			conn.Write(input) // fails where the server has heard enough
			conn.(*net.TCPConn).CloseWrite()
		}()
		in := bufio.NewReader(conn)
		for {
			head, err := in.ReadByte()
			if err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal("the connection was not ended")
				}
				return // closed, or reset because it was not read to the end
			}
			if head&0x70 != 0 || head&0x80 == 0 {
				t.Fatalf("first byte %#x", head)
			}
			n, err := frameLength(in)
			if errors.Is(err, errMasked) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, in, n); err != nil {
				return
			}
		}
	})
}

var errMasked = errors.New("a masked frame, which a server never sends")

func frameLength(in *bufio.Reader) (int64, error) {
	b, err := in.ReadByte()
	if err != nil || b < 126 {
		return int64(b), err
	}
	var wide [8]byte
	part := wide[6:]
	if b == 127 {
		part = wide[:]
	}
	if b > 127 {
		return 0, errMasked
	}
	_, err = io.ReadFull(in, part)
	return int64(binary.BigEndian.Uint64(wide[:])), err
}
