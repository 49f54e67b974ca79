package plainhttp

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// slowParts are what streams of requests are put together from: some take their time, some
// are net/http's, some are not whole.
func slowParts() []string {
	return []string{
		request("/wait", "slow"), request("/a", "quick"), request("/wait", ""), request("/missing", strings.Repeat("x", 5000)),
		"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n", "POST /wait HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", "\r\n", request("/wait", "unfinished")[:60], "POST /wa", request("/wait", "closing")[:0] + "POST /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
	}
}

// streamOf puts a stream together: each byte is a part, and whether what comes after it is
// sent by itself.
func streamOf(choice []byte) (pieces [][]byte) {
	parts, piece := slowParts(), []byte(nil)
	for _, c := range choice[:min(len(choice), 8)] {
		piece = append(piece, parts[int(c&0x7f)%len(parts)]...)
		if c&0x80 != 0 {
			pieces, piece = append(pieces, piece), nil
		}
	}
	return append(pieces, piece)
}

// TestAHalfCloseDropsNothing: who says behind its requests that nothing more will come gets
// the answers to all of them, also when the first one is slow.
func TestAHalfCloseDropsNothing(t *testing.T) {
	ours := serve(t, &echo{}, nil)
	c := dial(t, ours.address())
	c.send(request("/wait", "1") + request("/a", "2") + request("/wait", "3") + request("/b", "4"))
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][2]string{{"/wait", "1"}, {"/a", "2"}, {"/wait", "3"}, {"/b", "4"}} {
		c.expect(want[0], want[1])
	}
	c.ended()
}

// FuzzSlowAndHalfClosed: streams with slow requests, at whose end the client says that nothing
// more will come, are answered as by net/http.
func FuzzSlowAndHalfClosed(f *testing.F) {
	for _, seed := range []string{"\x00\x01", "\x00\x01\x02\x03", "\x80\x01", "\x00\x80\x01\x02", "\x04\x00\x01", "\x05\x01", "\x00\x06\x01", "\x00\x08", "\x00\x01\x09", "\x00\x0a\x01", "\x03\x83\x00\x87\x01"} {
		f.Add([]byte(seed))
	}
	theirs, ours := reference(f), serve(f, &echo{}, nil).address()
	f.Fuzz(func(t *testing.T, choice []byte) {
		pieces := streamOf(choice)
		if diff := cmp.Diff(transcript(t, theirs, pieces...), transcript(t, ours, pieces...)); diff != "" {
			t.Errorf("%x (-net/http +ours)\n%s", choice, diff)
		}
	})
}

// TestConnectionSoak compares random streams with net/http for LOCKSTEP_SOAK_TIME, or a few of
// them, some of which end by a reset; then nothing is left of any.
func TestConnectionSoak(t *testing.T) {
	length, _ := time.ParseDuration(os.Getenv("LOCKSTEP_SOAK_TIME")) // none: a few
	end := time.Now().Add(length)
	theirs, ours := reference(t), serve(t, &echo{}, nil)
	random := rand.New(rand.NewPCG(3, 9))
	for n := 0; n < 40 || time.Now().Before(end); n++ {
		choice := make([]byte, 1+random.IntN(8))
		for i := range choice {
			choice[i] = byte(random.Uint32())
		}
		pieces := streamOf(choice)
		if random.IntN(4) == 0 {
			reset(t, ours.address(), pieces)
			continue
		}
		if diff := cmp.Diff(transcript(t, theirs, pieces...), transcript(t, ours.address(), pieces...)); diff != "" {
			t.Fatalf("%x (-net/http +ours)\n%s", choice, diff)
		}
	}
	eventually(t, "all connections have ended", func() bool { return ours.echo.open.Load() == 0 })
}

// reset sends and then breaks the connection.
func reset(t *testing.T, address string, pieces [][]byte) {
	c := dial(t, address)
	for _, piece := range pieces {
		_, _ = c.Write(piece) // the server may have closed already
	}
	_ = c.SetLinger(0)
	_ = c.Close()
}
