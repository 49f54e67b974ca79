package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/must"
)

// answer is what a client was told about one transaction it sent.
type answer struct {
	tx    *transaction
	relay string
	hash  common.Hash // the result, if refusal and lost are nil
	// refusal is the relay's error.
	refusal *refusal
	// lost says that no answer came: the connection broke.
	lost error
	sent time.Time
	took time.Duration
}

func (a answer) ok() bool { return a.refusal == nil && a.lost == nil }

// says tells whether the relay refused with these words.
func (a answer) says(text string) bool {
	return a.refusal != nil && strings.Contains(strings.ToLower(a.refusal.Message), text)
}

// Words of refusals.
const (
	tooLow   = "nonce too low"
	tooHigh  = "nonce too high"
	turnLost = "not submitted in its turn"
	stopping = "shutting down"
)

func (a answer) String() string {
	switch {
	case a.lost != nil:
		return fmt.Sprintf("%v at %s: no answer after %v: %v", a.tx, a.relay, a.took.Round(time.Millisecond), a.lost)
	case a.refusal != nil:
		return fmt.Sprintf("%v at %s: %v after %v", a.tx, a.relay, a.refusal, a.took.Round(time.Millisecond))
	default:
		return fmt.Sprintf("%v at %s: accepted after %v", a.tx, a.relay, a.took.Round(time.Millisecond))
	}
}

// refusal is a JSON-RPC error.
type refusal struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *refusal) String() string { return fmt.Sprintf("%d %s %s", e.Code, e.Message, e.Data) }

// open tells whether the relay said that it does not know the outcome.
func (e *refusal) open() bool {
	var data struct{ Provisional bool }
	return json.Unmarshal(e.Data, &data) == nil && data.Provisional
}

type request struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

type reply struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *refusal        `json:"error"`
}

// submission is the request body for transactions, with ids from first on: one
// call, or a batch.
func submission(first int, txs []*transaction) []byte {
	calls := make([]request, len(txs))
	for i, tx := range txs {
		calls[i] = request{"2.0", first + i, "eth_sendRawTransaction", []any{tx.raw}}
	}
	var body any = calls
	if len(calls) == 1 {
		body = calls[0]
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return text
}

// readReplies reads one answer or an array of them.
func readReplies(body []byte) ([]reply, error) {
	var all []reply
	if trimmed := bytes.TrimSpace(body); len(trimmed) == 0 || trimmed[0] != '[' {
		all = make([]reply, 1)
		return all, json.Unmarshal(body, &all[0])
	}
	return all, json.Unmarshal(body, &all)
}

func newAnswer(tx *transaction, r *relay, got reply, sent time.Time) answer {
	a := answer{tx: tx, relay: r.name, refusal: got.Error, sent: sent, took: time.Since(sent)}
	if got.Error == nil {
		a.lost = json.Unmarshal(got.Result, &a.hash)
	}
	return a
}

// post sends transactions in one HTTP request and waits for the answers.
func (r *relay) post(ctx context.Context, txs ...*transaction) []answer {
	sent := time.Now()
	replies, err := r.roundTrip(ctx, submission(0, txs))
	answers := make([]answer, len(txs))
	for i, tx := range txs {
		at := slices.IndexFunc(replies, func(got reply) bool { return got.ID != nil && *got.ID == i })
		switch {
		case err != nil:
			answers[i] = answer{tx: tx, relay: r.name, lost: err, sent: sent, took: time.Since(sent)}
		case at < 0:
			answers[i] = answer{tx: tx, relay: r.name, lost: fmt.Errorf("no reply with its id among %d", len(replies)), sent: sent, took: time.Since(sent)}
		default:
			answers[i] = newAnswer(tx, r, replies[at], sent)
		}
	}
	return answers
}

func (r *relay) roundTrip(ctx context.Context, body []byte) ([]reply, error) {
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, r.http, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(post)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return readReplies(text)
}

// call makes one call that must succeed.
func (r *relay) call(method string, params ...any) json.RawMessage {
	t := r.net.t
	t.Helper()
	body := must.Get(json.Marshal(request{"2.0", 1, method, params}))(t)
	replies := must.Get(r.roundTrip(t.Context(), body))(t)
	if replies[0].Error != nil {
		t.Fatalf("%s: %v", method, replies[0].Error)
	}
	return replies[0].Result
}
