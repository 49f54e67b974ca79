package rpc

import (
	"bufio"
	"errors"
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
		for in := bufio.NewReader(conn); ; {
			_, _, err := readFrame(in)
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
				t.Fatal("the connection was not ended")
			case errors.Is(err, errBadFrame):
				t.Fatal(err)
			case err != nil:
				return // closed, or reset because it was not read to the end
			}
		}
	})
}
