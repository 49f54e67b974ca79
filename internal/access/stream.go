package access

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	heartbeat   = 15 * time.Second // how often a quiet stream says that it lives
	streamWrite = 30 * time.Second // a reader that takes nothing for so long is gone
)

// Stream writes server-sent events to one reader until the reader or ctx ends, or the reader's key is revoked: nothing
// of a page is written after that. page waits for the events behind a cursor, at the longest until its context ends; it
// returns their text, which may be empty, and the cursor of the last. The error is page's; the reader comes back with
// the last id that it has received.
//
// A quiet stream says its cursor, at once and then every 15 s: an id without data, which moves the reader's last id and is no event. So a
// reader that asked for what happens from now on, and is cut off before anything has, misses nothing.
func Stream(ctx context.Context, w http.ResponseWriter, after int64, page func(ctx context.Context, after int64) (events string, last int64, err error)) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	for text := position(after); !revoked(ctx); {
		_ = out.SetWriteDeadline(time.Now().Add(streamWrite))
		if _, err := io.WriteString(w, text); err != nil || out.Flush() != nil || ctx.Err() != nil {
			return nil //nolint:nilerr // the reader is gone
		}
		wait, cancel := context.WithTimeout(ctx, heartbeat)
		events, last, err := page(wait, after)
		cancel()
		if err != nil {
			return err
		}
		if text, after = events, last; text == "" {
			text = position(after) // keeps proxies from closing it
		}
	}
	return nil
}

func position(cursor int64) string { return "id: " + strconv.FormatInt(cursor, 10) + "\n\n" }
