package fetch

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"lockstep/internal/relay/capacity"
)

// errCrowded says that too many long answers are being read at once. The cause is in this process, not in the
// mirror node.
var errCrowded = errors.New("too many long answers of the mirror node at once")

const (
	// shortAnswer is the part of every answer that is not counted: most answers are shorter.
	shortAnswer = 128 << 10
	// pieceOfAnswer is the first room for an answer whose length is not known.
	pieceOfAnswer = 16 << 10
)

// answerBytes bounds the bytes of all answers that are being read.
type answerBytes struct {
	most int64
	held atomic.Int64
}

// body is an answer while it is read, with the bytes that it takes from the limits of the process and of its
// request.
type body struct {
	text    []byte
	all     *answerBytes
	request *capacity.Holding // nil: nobody's
	taken   int               // bytes that count
}

// grow makes room for some more bytes, if the process and the request may hold them.
func (b *body) grow(more int) error {
	length, before := len(b.text), b.taken
	if counted := length + more - shortAnswer; counted > 0 { // the old room stays until the new one is filled
		if err := b.take(counted); err != nil {
			return err
		}
	}
	b.text = append(make([]byte, 0, length+more), b.text...)
	b.give(before)
	return nil
}

func (b *body) take(more int) error {
	if b.all.held.Add(int64(more)) > b.all.most {
		b.all.held.Add(-int64(more))
		return errCrowded
	}
	if err := b.request.Take(more); err != nil {
		b.all.held.Add(-int64(more))
		return err
	}
	b.taken += more
	return nil
}

func (b *body) give(bytes int) {
	b.all.held.Add(-int64(bytes))
	b.request.Give(bytes)
	b.taken -= bytes
}

// free gives back what was taken.
func (b *body) free() { b.give(b.taken) }

// read reads an answer. It refuses one with more bytes than the maximum.
func (b *body) read(answer *http.Response, longest int64) error {
	room := pieceOfAnswer
	switch length := answer.ContentLength; {
	case length > longest:
		return ErrTooLong
	case length >= 0:
		room = int(length) + 1 // one more, to see the end
	}
	for {
		if len(b.text) == cap(b.text) {
			if err := b.grow(room); err != nil {
				return err
			}
		}
		n, err := answer.Body.Read(b.text[len(b.text):cap(b.text)])
		b.text = b.text[:len(b.text)+n]
		length := int64(len(b.text))
		switch {
		case length > longest:
			return ErrTooLong
		case err == io.EOF: //nolint:errorlint // the contract of io.Reader
			return nil
		case err != nil:
			return fmt.Errorf("read answer: %w", err)
		}
		room = int(min(max(length, pieceOfAnswer), longest+1-length)) // as much again
	}
}

// aboutUs tells whether a request failed for a reason that is not the mirror node's fault.
func aboutUs(err error) bool {
	return errors.Is(err, errCrowded) || errors.Is(err, errNoSlot) || ofRequest(err)
}

// ofRequest tells whether a read failed because of what its own request, or that request's client, may hold.
func ofRequest(err error) bool {
	var exceeded *capacity.Exceeded
	return errors.As(err, &exceeded) || errors.Is(err, capacity.ErrClosed)
}
