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
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"lockstep/internal/clip"
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
	return &Client{url: strings.TrimRight(url, "/"), key: key, http: &http.Client{
		Timeout:       2 * time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // what is sent on may come as another call
	}}
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
		err := tx.named(c.Call(ctx, http.MethodPost, path, o.Key, intent, &tx))
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

// errOther means that something else than a manager answered.
var errOther = errors.New("the answer is not the manager's")

// named is the error of a call that a transaction has to come back from. Anything may answer 200, and with JSON.
func (t *Transaction) named(err error) error {
	if err == nil && t.ID == "" {
		return fmt.Errorf("%w: it names no transaction", errOther)
	}
	return err
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
	err := c.Call(ctx, http.MethodGet, path, "", nil, &tx)
	return &tx, tx.named(err)
}

// Cancel asks for a transaction to have no effect. What is mined decides.
func (c *Client) Cancel(ctx context.Context, id string) (*Transaction, error) {
	var tx Transaction
	err := c.Call(ctx, http.MethodPost, "/v1/transactions/"+url.PathEscape(id)+"/cancel", "", nil, &tx)
	return &tx, tx.named(err)
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
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return err
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	}
	if c.from != "" {
		request.Header.Set("X-Forwarded-For", c.from)
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
	content, err := clip.ReadAll(response.Body, maxAnswer)
	if err != nil {
		return fmt.Errorf("the answer: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return problemOf(response.StatusCode, content)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(content, out); err != nil {
		return fmt.Errorf("%w: %w", errOther, err)
	}
	return nil
}

func problemOf(status int, content []byte) error {
	p := Problem{Status: status}
	if json.Unmarshal(content, &p) != nil || p.Code == "" && p.Detail == "" {
		p.Detail = strings.TrimSpace(string(content[:min(len(content), 200)]))
		if status/100 == 3 {
			p.Detail = "it redirects to another address; ask there"
		}
	}
	p.Status = status
	return &p
}
