// Package clip bounds other people's words to what there is room for: a node may say a megabyte.
package clip

import (
	"fmt"
	"io"
	"strings"
)

// ReadAll is io.ReadAll of a reader that may have so many bytes. With more it fails: a part of an answer would pass for the whole.
func ReadAll(r io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, fmt.Errorf("more than %d bytes", most)
	}
	return text, err
}

// Text is the text if it has at most so many bytes, or else its beginning, cut between two characters, and an ellipsis.
func Text(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
