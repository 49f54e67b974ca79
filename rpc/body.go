package rpc

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"lockstep/internal/relay/capacity"
)

var (
	errBodyTooLarge = errors.New("request body is over the size limit")
	errBodyEncoding = errors.New("unsupported content encoding")
)

// readBody reads a request's body, decompressed. Neither the body as sent nor the decompressed
// body may be longer than limit bytes. Memory grows with what has arrived, not with what was announced.
func readBody(r *http.Request, limit int, holding *capacity.Holding) ([]byte, error) {
	if r.ContentLength > int64(limit) {
		return nil, errBodyTooLarge
	}
	encoding := r.Header.Get("Content-Encoding")
	if encoding == "" || strings.EqualFold(encoding, "identity") {
		return readAll(r.Body, limit, holding)
	}
	src, err := decompress(encoding, io.LimitReader(r.Body, int64(limit)))
	if err != nil {
		return nil, err
	}
	return readAll(src, limit, holding)
}

func decompress(encoding string, src io.Reader) (io.Reader, error) {
	in := bufio.NewReader(src)
	switch strings.ToLower(encoding) {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("gzip body: %w", err)
		}
		return z, nil
	case "deflate":
		// Senders disagree whether deflate has the zlib header.
		head, err := in.Peek(2)
		if err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			z, err := zlib.NewReader(in)
			if err != nil {
				return nil, fmt.Errorf("deflate body: %w", err)
			}
			return z, nil
		}
		return flate.NewReader(in), nil
	}
	return nil, errBodyEncoding
}

// readAll reads src to its end, or fails once it is longer than limit bytes, or than the
// holding allows.
func readAll(src io.Reader, limit int, holding *capacity.Holding) (buf []byte, err error) {
	counted := 0
	hold := func(bytes int) error {
		more := bytes - counted
		counted = max(counted, bytes)
		return holding.Take(more)
	}
	for {
		if len(buf) == cap(buf) {
			room := max(2*cap(buf), 512)
			if room > limit {
				room = limit + 1 // to see that it is too long
			}
			if over := hold(room); over != nil {
				return buf, over
			}
			buf = append(make([]byte, 0, room), buf...)
		}
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if over := hold(len(buf)); over != nil {
			return buf, over
		}
		switch {
		case len(buf) > limit:
			return buf, errBodyTooLarge
		case err == io.EOF: //nolint:errorlint // the contract of io.Reader
			return buf, nil
		case err != nil:
			return buf, fmt.Errorf("read body: %w", err)
		}
	}
}
