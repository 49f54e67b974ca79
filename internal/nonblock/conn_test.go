package nonblock

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair returns the two ends of a connection; the first is ours.
func pair(t *testing.T) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return New(near.(*net.TCPConn)), far.(*net.TCPConn)
}

func noise(n int) []byte {
	b := make([]byte, n)
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// Whatever the lengths of both pieces, and however little of them there is room for at
// once, the other side gets the one and then the other.
func TestWriteBoth(t *testing.T) {
	const large = 9 << 20 // more than sockets hold
	for _, n := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {200, 75_000}, {300 << 10, 300 << 10}, {large, 10}, {10, large}} {
		conn, far := pair(t)
		head, body := noise(n[0]), noise(n[1])
		go func() {
			defer func() { _ = conn.CloseWrite() }()
			if written, err := conn.WriteBoth(head, body); written != n[0]+n[1] || err != nil {
				t.Errorf("%v: wrote %d: %v", n, written, err)
			}
		}()
		got, err := io.ReadAll(far)
		if err != nil || !bytes.Equal(got, append(head, body...)) {
			t.Errorf("%v: read %d: %v", n, len(got), err)
		}
	}
}

// What comes is read as it comes, up to the end.
func TestRead(t *testing.T) {
	conn, far := pair(t)
	text := noise(3 << 20)
	go func() {
		_, _ = far.Write(text)
		_ = far.Close()
	}()
	if n, err := conn.Read(nil); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d of %d: %v", len(got), len(text), err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // the contract of io.Reader
		t.Error(err)
	}
}

// Reading and writing end with their deadline, with the end of the connection here, and
// with its end there.
func TestEnds(t *testing.T) {
	past := time.Unix(1, 0)
	much := make([]byte, 32<<20)
	for name, test := range map[string]struct {
		end  func(conn *Conn, far *net.TCPConn) error
		want []error // one of them
	}{
		"deadline": {func(conn *Conn, _ *net.TCPConn) error { return conn.SetDeadline(past) }, []error{os.ErrDeadlineExceeded}},
		"here":     {func(conn *Conn, _ *net.TCPConn) error { return conn.Close() }, []error{net.ErrClosed}},
		"there": {func(_ *Conn, far *net.TCPConn) error {
			return errors.Join(far.SetLinger(0), far.Close())
		}, []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF}}, // the kernel tells of a reset once
	} {
		t.Run(name, func(t *testing.T) {
			conn, far := pair(t)
			ended := make(chan error, 2)
			go func() {
				_, err := conn.Read(make([]byte, 1))
				ended <- err
			}()
			go func() {
				n, err := conn.Write(much)
				if n >= len(much) {
					t.Errorf("wrote %d", n)
				}
				ended <- err
			}()
			if _, err := io.ReadFull(far, make([]byte, 1<<20)); err != nil { // both are under way
				t.Fatal(err)
			}
			if err := test.end(conn, far); err != nil {
				t.Fatal(err)
			}
			for range cap(ended) {
				err := <-ended
				expected := false
				for _, want := range test.want {
					expected = expected || errors.Is(err, want)
				}
				if !expected {
					t.Errorf("%v, want one of %v", err, test.want)
				}
			}
		})
	}
}
