package plainhttp

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Respond answers the request. The fields are those that net/http does not add by itself:
// lines with their ends, in as many pieces as it takes. So may be the body. If writing fails
// the client is gone, and there is nobody to tell.
func (r *Request) Respond(status int, body [][]byte, fields ...string) {
	c := r.c
	c.now = time.Now()
	c.writeBy.atLeast(c.now, c.l.Server.WriteTimeout)
	out := c.l.memory.answer()
	length := 0
	for _, part := range body {
		length += len(part)
	}
	*out = c.appendHead((*out)[:0], status, length, fields)
	const short = 16 << 10 // that it is cheaper to copy than to write by itself
	if len(body) > 0 && len(body[0]) <= short {
		*out = append(*out, body[0]...)
		body = body[1:]
	}
	c.failed = c.write(*out, body) != nil
	c.l.memory.answers.Put(out)
	r.answered = true
}

// write sends what begins an answer, and the rest. Both leave with one system call, so that a client is not woken for
// the beginning alone.
func (c *conn) write(begin []byte, rest [][]byte) error {
	if len(rest) == 0 {
		_, err := c.tcp.Write(begin)
		return err
	}
	return writePieces(c.tcp, append([][]byte{begin}, rest...))
}

func (c *conn) appendHead(out []byte, status, length int, fields []string) []byte {
	out = appendStatus(out, status)
	for _, piece := range fields {
		out = append(out, piece...)
	}
	out = append(out, "Date: "...)
	out = append(out, c.l.dates.at(c.now)...)
	out = append(out, "\r\nContent-Length: "...)
	out = strconv.AppendInt(out, int64(length), 10)
	if c.last = c.l.draining.Load() || c.l.Leaving != nil && c.l.Leaving(); c.last {
		out = append(out, "\r\nConnection: close"...)
	}
	return append(out, "\r\n\r\n"...)
}

func appendStatus(out []byte, status int) []byte {
	if status == http.StatusOK {
		return append(out, "HTTP/1.1 200 OK\r\n"...)
	}
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(status), 10)
	out = append(out, ' ')
	out = append(out, http.StatusText(status)...)
	return append(out, "\r\n"...)
}

// dates keeps the text of the second at hand.
type dates struct{ last atomic.Pointer[date] }

type date struct {
	second int64
	text   string
}

// at returns a time as the Date field of an answer.
func (d *dates) at(now time.Time) string {
	second := now.Unix()
	if last := d.last.Load(); last != nil && last.second == second {
		return last.text
	}
	fresh := &date{second, now.UTC().Format(http.TimeFormat)}
	d.last.Store(fresh)
	return fresh.text
}
