// Package client is a small client of the transaction manager's REST API.
//
//	c := client.New("http://127.0.0.1:7550", "")
//	tx, err := c.Send(ctx, client.Intent{Chain: "31337", To: "0x…", Value: "1000"}, client.Options{Key: "order-17", Wait: "mined"})
//
// Sending with a Key is safe to repeat: the same key and intent give the same transaction,
// however often and through however many processes they come. Send repeats by itself when
// the answer was lost or the manager says that it does not know, and only with a Key.
// Without one, an error of the connection means that nobody knows whether it was accepted.
//
// An answer other than success is a *Problem, whose Code programs branch on.
//
// # Words
//
//	intent           see package txmgr
//	idempotency key  what makes sending again safe: the same key and intent are one transaction
//	problem          see package txmgr/api
//	event            one row of the stream of a transaction's states
package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/secret"
	"lockstep/internal/sleep"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 32 << 20

// tries bounds how often a call with a key is repeated.
const tries = 5

// Client calls one transaction manager. It is safe for concurrent use.
type Client struct {
	url  string
	key  secret.String
	from string // the address of whom this client speaks for; "" for itself
	http *http.Client
}

// For returns a client that passes on a request of somebody else: with that one's key, and
// naming its address, so that a manager without keys can refuse who is not on its machine.
func (c *Client) For(key secret.String, address string) *Client {
	other := *c
	other.key, other.from = key, address
	return &other
}

// New makes a client. Key may be empty where the manager wants none.
func New(url string, key secret.String) *Client {
	return &Client{url: strings.TrimRight(url, "/"), key: key, http: &http.Client{Timeout: 2 * time.Minute}}
}

// Intent is what should happen. Amounts are decimal or 0x text.
type Intent struct {
	Chain                string          `json:"chain"`
	To                   string          `json:"to,omitempty"`
	Value                string          `json:"value,omitempty"`
	Data                 string          `json:"data,omitempty"`
	Actions              json.RawMessage `json:"actions,omitempty"`  // on NEAR, instead of Value and Data
	Function             string          `json:"function,omitempty"` // instead of Data: "transfer(address,uint256)", or a name of ABI
	Args                 []any           `json:"args,omitempty"`     // of the function or of the constructor; large numbers as text
	Bytecode             string          `json:"bytecode,omitempty"` // deploys a contract, instead of To and Data
	ABI                  json.RawMessage `json:"abi,omitempty"`
	Gas                  uint64          `json:"gas,omitempty"`
	Speed                string          `json:"speed,omitempty"`
	MaxFeePerGas         string          `json:"maxFeePerGas,omitempty"`
	MaxPriorityFeePerGas string          `json:"maxPriorityFeePerGas,omitempty"`
	Pool                 string          `json:"pool,omitempty"`
	Pin                  string          `json:"pin,omitempty"`
	OrderKey             string          `json:"orderKey,omitempty"`
	ShardKey             string          `json:"shardKey,omitempty"`
	ValidUntil           *time.Time      `json:"validUntil,omitempty"`
	Simulate             string          `json:"simulate,omitempty"`
	OnFailure            string          `json:"onFailure,omitempty"`
	Subject              string          `json:"subject,omitempty"`
	Actor                string          `json:"actor,omitempty"`
	Method               string          `json:"method,omitempty"`
	RequestID            string          `json:"requestId,omitempty"`
	Metadata             json.RawMessage `json:"metadata,omitempty"`
}

// Options are how an intent is handed over.
type Options struct {
	Key     string        // the idempotency key
	Wait    string        // broadcast, mined or confirmed: answer when it has come so far
	Timeout time.Duration // of the wait; 0: the manager's own
}

// Transaction is what became of an intent.
type Transaction struct {
	ID      string   `json:"id"`
	Chain   string   `json:"chain"`
	Status  string   `json:"status"`
	Final   bool     `json:"final"`
	Waiting string   `json:"waiting"`
	Signer  string   `json:"signer"`
	Nonce   *uint64  `json:"nonce"`
	Hash    string   `json:"hash"`
	Hashes  []string `json:"hashes"`
	Receipt *struct {
		Hash      string `json:"transactionHash"`
		Block     uint64 `json:"blockNumber"`
		BlockHash string `json:"blockHash"`
		Success   bool   `json:"success"`
		GasUsed   uint64 `json:"gasUsed"`
		Contract  string `json:"contractAddress"`
	} `json:"receipt"`
	Error *struct {
		Class   string `json:"class"`
		Message string `json:"message"`
	} `json:"error"`
}

// Signer is an account that the manager signs for.
type Signer struct {
	Chain        string   `json:"chain"`
	Address      string   `json:"address"`
	Ours         bool     `json:"ours"`
	Pools        []string `json:"pools"`
	Enabled      bool     `json:"enabled"`
	PausedReason string   `json:"pausedReason"`
	Draining     bool     `json:"draining"`
	Halted       string   `json:"halted"`
	PassedOver   string   `json:"passedOver"`
	ChainNonce   uint64   `json:"chainNonce"`
	NextNonce    uint64   `json:"nextNonce"`
	Pending      int      `json:"pending"`
	Gaps         int      `json:"gaps"`
	Balance      string   `json:"balance"`
	Owner        string   `json:"owner"`
}

// Problem is an answer other than success.
type Problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

func (p *Problem) Error() string {
	return fmt.Sprintf("the transaction manager answered %d %s: %s", p.Status, p.Code, p.Detail)
}

// Send hands an intent over.
func (c *Client) Send(ctx context.Context, intent Intent, o Options) (*Transaction, error) {
	query := url.Values{}
	if o.Wait != "" {
		query.Set("wait", o.Wait)
		if o.Timeout > 0 {
			query.Set("timeout", o.Timeout.String())
		}
	}
	path := "/v1/transactions"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var tx Transaction
	pause := 100 * time.Millisecond
	for try := 1; ; try++ {
		err := c.Call(ctx, http.MethodPost, path, o.Key, intent, &tx)
		if err == nil {
			return &tx, nil
		}
		if o.Key == "" || try == tries || !lost(err) {
			return nil, err
		}
		if !sleep.For(ctx, pause) {
			return nil, errors.Join(ctx.Err(), err)
		}
		pause *= 2
	}
}

// lost reports whether the manager's own answer is missing, so that asking again can help.
func lost(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		return !errors.Is(err, context.Canceled)
	}
	return p.Code == "UNCERTAIN" || p.Code == "BUSY" || p.Code == "UNAVAILABLE" || p.Status == http.StatusBadGateway || p.Status == http.StatusGatewayTimeout
}

// Get returns a transaction. With wait it answers when the transaction has come so far.
func (c *Client) Get(ctx context.Context, id, wait string) (*Transaction, error) {
	path := "/v1/transactions/" + url.PathEscape(id)
	if wait != "" {
		path += "?wait=" + url.QueryEscape(wait)
	}
	var tx Transaction
	return &tx, c.Call(ctx, http.MethodGet, path, "", nil, &tx)
}

// Cancel asks for a transaction to have no effect. What is mined decides.
func (c *Client) Cancel(ctx context.Context, id string) (*Transaction, error) {
	var tx Transaction
	return &tx, c.Call(ctx, http.MethodPost, "/v1/transactions/"+url.PathEscape(id)+"/cancel", "", nil, &tx)
}

// Signers lists the signers of a chain, or of all chains for "".
func (c *Client) Signers(ctx context.Context, chain string) ([]Signer, error) {
	var out struct {
		Signers []Signer `json:"signers"`
	}
	err := c.Call(ctx, http.MethodGet, "/v1/signers?chain="+url.QueryEscape(chain), "", nil, &out)
	return out.Signers, err
}

// Operate pauses, resumes, drains or reconciles a signer; body may be nil.
func (c *Client) Operate(ctx context.Context, chain, address, verb string, body any) (*Signer, error) {
	var out Signer
	return &out, c.Call(ctx, http.MethodPost, "/v1/signers/"+url.PathEscape(chain)+"/"+url.PathEscape(address)+"/"+verb, "", body, &out)
}

// Call makes one request. In is sent as JSON unless it is nil; the answer is read into out
// unless that is nil.
func (c *Client) Call(ctx context.Context, method, path, key string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	request, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return problemOf(response.StatusCode, content)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(content, out); err != nil {
		return fmt.Errorf("the answer is not the manager's: %w", err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return nil, err
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	if c.from != "" {
		request.Header.Set("X-Forwarded-For", c.from)
	}
	return request, nil
}

func problemOf(status int, content []byte) error {
	p := Problem{Status: status}
	if json.Unmarshal(content, &p) != nil || p.Code == "" && p.Detail == "" {
		p.Detail = strings.TrimSpace(string(content[:min(len(content), 200)]))
	}
	p.Status = status
	return &p
}

// Event is one step of some transaction.
type Event struct {
	ID      int64           // the cursor
	Kind    string          // such as tx.mined
	Subject string          `json:"subject"` // the transaction's id
	At      time.Time       `json:"at"`
	Body    json.RawMessage `json:"body"`
}

// Stream calls handle for every event after a cursor, in order, until ctx ends or handle
// returns an error. It comes back by itself when the connection ends. A cursor below
// 0 begins with what happens from now on.
func (c *Client) Stream(ctx context.Context, after int64, handle func(Event) error) error {
	stream := &http.Client{} // without a time-out
	failures := 0
	for {
		before := after
		err := c.follow(ctx, stream, &after, handle)
		var stop *stopError
		var p *Problem
		switch {
		case errors.As(err, &stop):
			return stop.err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &p) && p.Status < 500:
			return p
		}
		if failures++; after != before {
			failures = 0
		}
		if !sleep.For(ctx, min(time.Duration(failures)*200*time.Millisecond, 5*time.Second)) {
			return ctx.Err()
		}
	}
}

// stopError carries what handle said.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }

func (c *Client) follow(ctx context.Context, stream *http.Client, after *int64, handle func(Event) error) error {
	request, err := c.request(ctx, http.MethodGet, "/v1/transactions/stream", nil)
	if err != nil {
		return &stopError{err}
	}
	if *after >= 0 {
		request.Header.Set("Last-Event-ID", strconv.FormatInt(*after, 10))
	}
	response, err := stream.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		content, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return problemOf(response.StatusCode, content)
	}
	var e Event
	told := false // e has data; a cursor without any is where a quiet stream is
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		line := lines.Text()
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && e.ID > 0:
			if told {
				if err := handle(e); err != nil {
					return &stopError{err}
				}
			}
			*after, e, told = e.ID, Event{}, false
		case name == "id":
			if e.ID, err = strconv.ParseInt(value, 10, 64); err != nil {
				return fmt.Errorf("the stream is not the manager's: %w", err)
			}
		case name == "event":
			e.Kind = value
		case name == "data":
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				return fmt.Errorf("the stream is not the manager's: %w", err)
			}
			told = true
		}
	}
	return lines.Err()
}
