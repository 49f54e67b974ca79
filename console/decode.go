package console

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/relay/capacity"
	"lockstep/watch/decode"
)

// question is what the page wants in words.
type question struct {
	ABI  json.RawMessage `json:"abi"` // of Solidity; none: known signatures alone
	Call hexutil.Bytes   `json:"call"`
	Fail hexutil.Bytes   `json:"fail"` // what a call that reverted has returned
	Logs []struct {
		Topics []common.Hash `json:"topics"`
		Data   hexutil.Bytes `json:"data"`
	} `json:"logs"`
	Calls []call `json:"calls"` // the frames of a tree of calls, in any order
}

// call is what went into a call, and what it returned if it reverted.
type call struct {
	Call hexutil.Bytes `json:"call"`
	Fail hexutil.Bytes `json:"fail"`
}

// size is how much the question has to decode: in bytes and in things.
func (q *question) size() (bytes, things int) {
	bytes = len(q.Call) + len(q.Fail)
	for _, l := range q.Logs {
		bytes += len(l.Data) + len(l.Topics)*common.HashLength
	}
	for _, c := range q.Calls {
		bytes += len(c.Call) + len(c.Fail)
	}
	return bytes, len(q.Logs) + len(q.Calls)
}

// words are the answer; what has no known signature is nil.
type words struct {
	Call *phrase   `json:"call"`
	Fail *phrase   `json:"fail"`
	Logs []*phrase `json:"logs"`
	// Calls are as many as were asked for, in their order.
	Calls []callWords `json:"calls"`
}

type callWords struct {
	Call *phrase `json:"call"`
	Fail *phrase `json:"fail"`
}

// phrase is a call, an error or an event with its arguments.
type phrase struct {
	Name string `json:"name"`
	Args []arg  `json:"args"`
	// Hex has the bytes of texts that are not UTF-8, by their paths.
	Hex map[string]string `json:"hex,omitempty"`
}

type arg struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value any    `json:"value"`
}

// maxDecoded bounds what is decoded in one answer, in bytes, and in logs and calls together: values grow when they are written as text.
const (
	maxDecoded       = 256 << 10
	maxDecodedThings = 1000
)

// What a question costs at most, in bytes for each byte: of its text, of an ABI, and of what is decoded.
const (
	textCost   = 3
	abiCost    = 24
	decodeCost = 24
)

func (c *Console) decode(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	var holding capacity.Holding
	holding.Begin(c.deps.Memory, host)
	defer holding.Close()
	take := func(bytes int) bool {
		err := holding.Take(bytes)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
		return err == nil
	}
	text := int64(maxBody)
	if r.ContentLength >= 0 {
		text = min(r.ContentLength, text)
	}
	if !take(textCost * int(text)) {
		return
	}
	var q question
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, "not a question: "+err.Error(), http.StatusBadRequest)
		return
	}
	bytes, things := q.size()
	if bytes > maxDecoded || things > maxDecodedThings {
		http.Error(w, fmt.Sprintf("that is too much to decode: the maximum is %d bytes, and %d logs and calls together", maxDecoded, maxDecodedThings), http.StatusRequestEntityTooLarge)
		return
	}
	if !take(abiCost*len(q.ABI) + decodeCost*bytes) {
		return
	}
	d, err := newDictionary(q.ABI)
	if err != nil {
		http.Error(w, "the ABI cannot be read: "+err.Error(), http.StatusUnprocessableEntity)
		return
	}
	out := words{Call: d.call(q.Call), Fail: d.failure(q.Fail), Logs: []*phrase{}, Calls: []callWords{}}
	for _, l := range q.Logs {
		out.Logs = append(out.Logs, d.event(l.Topics, l.Data))
	}
	for _, c := range q.Calls {
		out.Calls = append(out.Calls, callWords{Call: d.call(c.Call), Fail: d.failure(c.Fail)})
	}
	respond(w, out)
}

// dictionary has the signatures that are looked up, those of an ABI before those that are known.
type dictionary struct{ given, known signatures }

// signatures are functions and errors by the first four bytes of their selectors, events by all of it. All of them
// have the form of an event's signature: arguments are encoded alike.
type signatures struct {
	functions, failures, events map[string][]*decode.Signature
}

func newSignatures() signatures {
	return signatures{map[string][]*decode.Signature{}, map[string][]*decode.Signature{}, map[string][]*decode.Signature{}}
}

const selectorSize = 4

// maxAlike is how many signatures with one selector are tried: an ABI may repeat one, with other marks, a thousand times.
const maxAlike = 4

func add(to map[string][]*decode.Signature, s *decode.Signature, bytes int) {
	key := string(s.Selector[:bytes])
	if len(to[key]) < maxAlike {
		to[key] = append(to[key], s)
	}
}

func newDictionary(text json.RawMessage) (dictionary, error) {
	d := dictionary{newSignatures(), known()}
	if len(text) == 0 || string(text) == "null" {
		return d, nil
	}
	all, err := decode.ReadABI(text)
	if err != nil {
		return d, err
	}
	for _, s := range all.Functions {
		add(d.given.functions, s, selectorSize)
	}
	for _, s := range all.Errors {
		add(d.given.failures, s, selectorSize)
	}
	for _, s := range all.Events {
		add(d.given.events, s, common.HashLength)
	}
	return d, nil
}

// LogFunctions are the signatures of the console libraries of Hardhat and Foundry: log with up to four values of four types, and
// with one of another type.
func LogFunctions() []string {
	lists := []string{""}
	for from, n := 0, 0; n < 4; n++ {
		shorter := lists[from:]
		from = len(lists)
		for _, list := range shorter {
			for _, typ := range []string{"uint256", "string", "bool", "address"} {
				lists = append(lists, strings.TrimPrefix(list+","+typ, ","))
			}
		}
	}
	lists = append(lists, "int256")
	lines := make([]string, 0, len(lists)+7)
	for _, list := range lists {
		lines = append(lines, "log("+list+")")
	}
	return append(lines, "logInt(int256)", "logUint(uint256)", "logString(string)", "logBool(bool)", "logAddress(address)", "logBytes(bytes)", "logBytes32(bytes32)")
}

//go:embed signatures.txt
var knownText string

// Signatures are those that need no ABI, each with its kind: function, error or event.
func Signatures() iter.Seq2[string, string] {
	return func(yield func(kind, signature string) bool) {
		for line := range strings.Lines(knownText) {
			kind, text, ok := strings.Cut(strings.TrimSpace(line), " ")
			if ok && kind != "#" && !yield(kind, text) {
				return
			}
		}
	}
}

// known reads the signatures that need no ABI, once.
var known = sync.OnceValue(func() signatures {
	all := newSignatures()
	for _, text := range LogFunctions() {
		if s, err := decode.Parse(text); err == nil {
			add(all.functions, s, selectorSize)
		}
	}
	for kind, text := range Signatures() {
		s, err := decode.Parse(text)
		if err != nil {
			panic(fmt.Sprintf("signatures.txt: %s: %v", text, err))
		}
		switch kind {
		case "function":
			add(all.functions, s, selectorSize)
		case "error":
			add(all.failures, s, selectorSize)
		case "event":
			add(all.events, s, common.HashLength)
		default:
			panic("signatures.txt: what is a " + kind + "?")
		}
	}
	return all
})

func (d dictionary) call(data []byte) *phrase {
	return selected(data, d.given.functions, d.known.functions)
}

func (d dictionary) failure(data []byte) *phrase {
	return selected(data, d.given.failures, d.known.failures)
}

// selected reads what begins with a selector of four bytes.
func selected(data []byte, tables ...map[string][]*decode.Signature) *phrase {
	if len(data) < selectorSize {
		return nil
	}
	return first(string(data[:selectorSize]), nil, data[selectorSize:], tables...)
}

func (d dictionary) event(topics []common.Hash, data []byte) *phrase {
	if len(topics) == 0 {
		return nil
	}
	return first(string(topics[0][:]), topics[1:], data, d.given.events, d.known.events)
}

// first is the phrase by the signature that the data fit to the last bit, or else by the first one that they fit.
func first(key string, indexed []common.Hash, data []byte, tables ...map[string][]*decode.Signature) (p *phrase) {
	for _, table := range tables {
		for _, s := range table[key] {
			values, err := s.Decode(append([]common.Hash{s.Selector}, indexed...), data)
			if err != nil || p != nil && !values.Exact {
				continue
			}
			p = &phrase{Name: s.Name, Args: []arg{}, Hex: values.Hex}
			for _, name := range s.Args() {
				p.Args = append(p.Args, arg{name, s.TypeOf(name), values.Args[name]})
			}
			if values.Exact {
				return p
			}
		}
	}
	return p
}
