package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
)

var (
	// ErrMismatch means that a log is not an event of the signature although its first topic is.
	ErrMismatch = errors.New("the log does not fit the event's signature")
	// ErrAmbiguous means that the signature does not say which arguments are indexed, and that the log can be read in several ways.
	ErrAmbiguous = errors.New("the log can be read in several ways: write indexed beside the arguments of the event that are")
)

// Values are what a log says.
type Values struct {
	// Args are the arguments by name, as the package comment shows them: string, bool, JSON-safe integer, list, or map.
	Args map[string]any
	// Hex has the bytes of texts that are not UTF-8, by their paths, like "orders[2].note". In Args such a text has U+FFFD for what is none.
	Hex map[string]string

	// Exact says that the usual encoder gives these data. Others decode, too, as long as they are unmistakable: with bytes behind the values,
	// tails in another order, padding that is not zero or missing.
	Exact bool
}

// FromJSON reads what this package has read before, or another object of JSON: its numbers are json.Number, since their digits are the value.
func FromJSON(text []byte) (object map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&object)
	return object, err
}

// Decode reads a log. Topics include the selector. What it reads and returns is bounded by a few times the size of the data.
func (s *Signature) Decode(topics []common.Hash, data []byte) (Values, error) {
	if s.Anonymous {
		return s.readAnonymous(topics, data)
	}
	if len(topics) == 0 || topics[0] != s.Selector {
		return Values{}, fmt.Errorf("%w: its first topic is another event's", ErrMismatch)
	}
	indexed := topics[1:]
	if len(indexed) > len(s.args) || len(indexed) > maxIndexed {
		return Values{}, fmt.Errorf("%w: %d topics for %d arguments", ErrMismatch, len(indexed), len(s.args))
	}
	if len(indexed) == s.marked {
		return s.read(s.marks(), indexed, data)
	}
	return s.placed(indexed, data)
}

// readAnonymous reads a log that does not say which event it is: the contract's other logs may have as many topics. So it must fit to the last bit.
func (s *Signature) readAnonymous(topics []common.Hash, data []byte) (Values, error) {
	if len(topics) != s.marked {
		return Values{}, fmt.Errorf("%w: %d topics for %d indexed arguments", ErrMismatch, len(topics), s.marked)
	}
	v, err := s.read(s.marks(), topics, data)
	if err == nil && !v.Exact {
		err = fmt.Errorf("%w: the event is anonymous, and the log does not fit it to the last bit", ErrMismatch)
	}
	return v, err
}

// DecodeCall reads the call data of a function: its selector, and its arguments.
func (s *Signature) DecodeCall(input []byte) (Values, error) {
	if len(input) < 4 || [4]byte(input) != [4]byte(s.Selector[:4]) {
		return Values{}, fmt.Errorf("%w: it calls another function", ErrMismatch)
	}
	return s.read(s.marks(), nil, input[4:])
}

// maxTries bounds the bytes that are read to find out which arguments are indexed.
const maxTries = 8 << 20

// placed reads a log that has more or fewer topics than the signature marks. If there is one way to say which arguments those
// are, it is that. If there are several, one of them must fit the log to the last bit, and the others must not.
func (s *Signature) placed(indexed []common.Hash, data []byte) (Values, error) {
	var ways [][]bool
	choose(len(s.args), len(indexed), func(marks []bool) { ways = append(ways, slices.Clone(marks)) })
	if len(ways) == 1 {
		return s.read(ways[0], indexed, data)
	}
	if len(ways)*len(data) > maxTries {
		return Values{}, fmt.Errorf("%w: %s", ErrAmbiguous, s)
	}
	var found Values // by the last way that fits, and from then on by the one that evidence speaks for
	fits, said := 0, map[evidence]int{}
	for _, marks := range ways {
		v, err := s.read(marks, indexed, data)
		if err != nil || !v.Exact {
			continue
		}
		fits++
		e := s.evidence(v)
		if said[speaksFor] == 0 {
			found = v
		}
		said[e]++
	}
	switch {
	case fits == 0:
		return Values{}, fmt.Errorf("%w: %d indexed arguments and %d bytes of data", ErrMismatch, len(indexed), len(data))
	case fits > 1 && (said[speaksFor] != 1 || said[silent] > 0):
		return Values{}, fmt.Errorf("%w: %s", ErrAmbiguous, s)
	default:
		return found, nil
	}
}

// evidence is what the addresses of a log say of the way in which it was read.
type evidence int

const (
	silent evidence = iota
	speaksFor
	speaksAgainst
)

// evidence looks at the addresses. Those of contracts and people are hashes: numbers of less than 2⁹⁶ are none, and what fills
// 20 bytes to the last four is no amount. Everything between, and the zero address, says nothing.
func (s *Signature) evidence(v Values) evidence {
	says := silent
	for _, a := range s.args {
		text, is := v.Args[a.Name].(string)
		if !is || a.Type.kind != kindAddress {
			continue
		}
		address := common.HexToAddress(text)
		switch {
		case address == common.Address{}:
		case zero(address[:8]):
			return speaksAgainst
		case !zero(address[:4]):
			says = speaksFor
		}
	}
	return says
}

func (s *Signature) marks() []bool {
	marks := make([]bool, len(s.args))
	for i, a := range s.args {
		marks[i] = a.Indexed
	}
	return marks
}

// choose calls yield with each choice of k of n, those that come first before others.
// n is small: an event of more than 17 arguments does not compile.
func choose(n, k int, yield func([]bool)) {
	marks := make([]bool, n)
	var place func(from, left int)
	place = func(from, left int) {
		if left == 0 {
			yield(marks)
			return
		}
		for i := from; i <= n-left; i++ {
			marks[i] = true
			place(i+1, left-1)
			marks[i] = false
		}
	}
	place(0, k)
}
