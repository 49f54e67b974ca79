package fetch

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// generationHeader is in the answers of mirror nodes of development networks, which can go back to an earlier
// state. It has the number of the answer's history, which only grows, and the newest block that was left when
// that history began. No other mirror node sends it.
const generationHeader = "Lockstep-Generation"

// errGone means that the answer is from a history that is gone.
var errGone = errors.New("the network went back while the mirror node answered")

// checkGeneration notes the history of an answer. A later one than before means that everything known is out of
// date; an earlier one means that the answer is.
func (f *Fetcher) checkGeneration(h http.Header) error {
	text := h.Get(generationHeader)
	if text == "" {
		return nil
	}
	number, at, _ := strings.Cut(text, ":")
	generation, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return nil //nolint:nilerr // a development network does not send this
	}
	f.generationMu.Lock()
	defer f.generationMu.Unlock()
	known := f.generation
	switch {
	case generation < known:
		return errGone
	case generation == known:
		return nil
	}
	f.generation = generation
	if known == 0 {
		return nil
	}
	block, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		block = 0
	}
	f.log.Debug("the network went back: everything known of it is forgotten", "block", block)
	f.lowerFloor(block)
	if f.wentBack != nil {
		f.wentBack(block)
	}
	return nil
}

// Generation is the number of the answers' history; 0: the mirror node names none.
func (f *Fetcher) Generation() uint64 {
	f.generationMu.Lock()
	defer f.generationMu.Unlock()
	return f.generation
}
