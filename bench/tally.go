package bench

import (
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/ethereum/go-ethereum/common"
)

// Bounds of what a target's error messages may add to a report.
const (
	maxClasses    = 64
	maxMessageLen = 160
)

// An ErrorClass counts the transactions that ended in the same way. Numbers and hex in
// the message are replaced, so that nonces and hashes do not make classes of their own.
type ErrorClass struct {
	Code    int    `json:"code,omitempty"` // JSON-RPC error code; 0 for failures of the transport
	Message string `json:"message"`
	Count   int    `json:"count"`
}

type classKey struct {
	code    int
	message string
}

// tally collects what becomes of the requests of a run while it runs.
type tally struct {
	txs      []transfer
	progress *progress

	mu       sync.Mutex // guards what follows
	accepted Histogram
	refused  Histogram
	classes  map[classKey]int
	last     time.Time // the latest answer
	lastOK   time.Time // the latest acceptance
	answers  int
}

func newTally(txs []transfer, p *progress) *tally {
	return &tally{txs: txs, progress: p, classes: make(map[classKey]int)}
}

// deliver records the reply to the request that carried the transactions in.
func (t *tally) deliver(x *exchange, in []int, r reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.progress.add(len(in))
	if r.err != nil {
		t.lose(in, transportClass(r.err))
		return
	}
	took := r.at.Sub(x.start)
	if len(r.messages) == 1 && r.messages[0].Error != nil {
		if _, ok := r.messages[0].id(); !ok { // a batch refused as a whole has no id
			for _, i := range in {
				t.refuse(i, r.messages[0].Error, r.at, took)
			}
			return
		}
	}
	for _, m := range r.messages {
		if i, ok := transferOf(m, in); ok && t.txs[i].verdict == unanswered {
			t.answer(i, m, r, took)
		}
	}
	for _, i := range in {
		if t.txs[i].verdict == unanswered {
			t.lose([]int{i}, "missing from the answer")
		}
	}
}

// transferOf finds the transaction that m answers; ids are transaction numbers plus 1.
func transferOf(m message, in []int) (int, bool) {
	id, ok := m.id()
	if !ok {
		return 0, false
	}
	for _, i := range in {
		if uint64(i)+1 == id {
			return i, true
		}
	}
	return 0, false
}

func (t *tally) answer(i int, m message, r reply, took time.Duration) {
	if m.Error != nil {
		t.refuse(i, m.Error, r.at, took)
		return
	}
	var hash common.Hash
	if err := hash.UnmarshalJSON(m.Result); err != nil || hash != t.txs[i].hash {
		t.txs[i].verdict = garbled
		t.count(classKey{message: "answered with something else than the hash"}, 1)
		return
	}
	t.txs[i].verdict = accepted
	t.accepted.Record(took)
	t.answers++
	t.last = later(t.last, r.at)
	t.lastOK = later(t.lastOK, r.at)
}

func (t *tally) refuse(i int, e *rpcError, at time.Time, took time.Duration) {
	t.txs[i].verdict = refused
	t.txs[i].nonceNo = aboutNonce(e)
	t.refused.Record(took)
	t.answers++
	t.last = later(t.last, at)
	t.count(classKey{e.Code, normalise(e.Message)}, 1)
}

// lose counts transactions without a usable answer.
func (t *tally) lose(in []int, why string) {
	for _, i := range in {
		t.txs[i].verdict = garbled
	}
	t.count(classKey{message: why}, len(in))
}

func (t *tally) count(key classKey, n int) {
	if _, known := t.classes[key]; !known && len(t.classes) >= maxClasses {
		key = classKey{message: "other errors"}
	}
	t.classes[key] += n
}

// errorClasses lists the classes, the most frequent first.
func (t *tally) errorClasses() []ErrorClass {
	list := make([]ErrorClass, 0, len(t.classes))
	for key, n := range t.classes {
		list = append(list, ErrorClass{Code: key.code, Message: key.message, Count: n})
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.Count != b.Count {
			return a.Count > b.Count
		}
		return a.Message < b.Message
	})
	return list
}

// aboutNonce tells whether a transaction was refused because of its nonce. Relays have
// no code of their own for it, so the message decides.
func aboutNonce(e *rpcError) bool {
	return strings.Contains(strings.ToLower(e.Message), "nonce")
}

// uuid is how relays name requests in their messages.
var uuid = regexp.MustCompile(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`)

// normalise makes a class of a message: hex becomes 0x…, numbers and UUIDs #.
func normalise(message string) string {
	var out strings.Builder
	runes := []rune(uuid.ReplaceAllString(printable(message), "#"))
	for i := 0; i < len(runes); {
		switch r := runes[i]; {
		case r == '0' && i+2 < len(runes) && runes[i+1] == 'x' && isHex(runes[i+2]):
			out.WriteString("0x…")
			for i += 2; i < len(runes) && isHex(runes[i]); {
				i++
			}
		case r >= '0' && r <= '9':
			out.WriteByte('#')
			for i < len(runes) && runes[i] >= '0' && runes[i] <= '9' {
				i++
			}
		default:
			out.WriteRune(r)
			i++
		}
	}
	return out.String()
}

// printable is what a terminal may show of a target's message: no control characters,
// and not more than a line or two.
func printable(message string) string {
	var out strings.Builder
	for _, r := range message {
		if out.Len() >= maxMessageLen {
			break
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		out.WriteRune(r)
	}
	return out.String()
}

func isHex(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F'
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
