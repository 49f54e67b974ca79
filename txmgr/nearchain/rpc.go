package nearchain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"lockstep/internal/clip"
	"lockstep/internal/outage"
)

// maxAnswer bounds what is read from a node.
const maxAnswer = 32 << 20

// endpoint is one node.
type endpoint struct {
	name   string
	url    string
	client *http.Client
	log    outage.Log
	outage.Rest
}

// aboutNode are the causes that say nothing of what was asked: another node may know.
var aboutNode = map[string]bool{"NOT_SYNCED_YET": true, "NO_SYNCED_BLOCKS": true, "UNAVAILABLE_SHARD": true, "DOES_NOT_TRACK_SHARD": true}

// callError is an answer that is an error, in nearcore's form.
type callError struct {
	Name  string `json:"name"`
	Cause struct {
		Name string          `json:"name"`
		Info json.RawMessage `json:"info"`
	} `json:"cause"`
	Data json.RawMessage `json:"data"`
}

// Error names the cause, and what is wrong with a transaction.
func (e *callError) Error() string {
	if len(e.Data) == 0 || len(e.Data) > 1000 {
		return e.Cause.Name
	}
	return e.Cause.Name + " " + string(e.Data)
}

// is reports whether an error is a node's answer with this cause.
func is(err error, cause string) bool {
	answer, ok := errors.AsType[*callError](err)
	return ok && answer.Cause.Name == cause
}

// call asks the node and decodes its result.
func (e *endpoint) call(ctx context.Context, method string, params, into any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "1", "method": method, "params": params})
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return errors.New(e.name + ": not a URL that can be asked")
	}
	post.Header.Set("Content-Type", "application/json")
	answer, err := e.client.Do(post)
	if err != nil {
		return e.failed(ctx, errors.New(e.name+": "+root(err)))
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := clip.ReadAll(answer.Body, maxAnswer)
	if err != nil {
		return e.failed(ctx, errors.New(e.name+": "+root(err)))
	}
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *callError      `json:"error"`
	}
	// No question of ours has null for an answer.
	if json.Unmarshal(text, &reply) != nil || reply.Error == nil && (reply.Result == nil || string(reply.Result) == "null") {
		return e.failed(ctx, fmt.Errorf("%s: HTTP %d without a JSON-RPC answer", e.name, answer.StatusCode))
	}
	switch refusal := reply.Error; {
	case refusal == nil:
	case refusal.Name == "INTERNAL_ERROR":
		return e.failed(ctx, fmt.Errorf("%s: an internal error", e.name))
	case refusal.Cause.Name == "": // a balancer says it, or a provider that limits us
		return e.failed(ctx, fmt.Errorf("%s: HTTP %d, and an error without a name of nearcore's", e.name, answer.StatusCode))
	case aboutNode[refusal.Cause.Name]:
		return e.failed(ctx, refusal)
	default:
		return refusal
	}
	e.Well()
	e.log.Up(ctx)
	return json.Unmarshal(reply.Result, into)
}

// root is an error's text without the URL that net/http puts before it.
func root(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

func (e *endpoint) failed(ctx context.Context, err error) error {
	if !errors.Is(ctx.Err(), context.Canceled) { // then the question was given up, which is no fault of the node's
		e.Failed()
		e.log.Down(ctx, err)
	}
	return err
}

// order returns the endpoints as they should be asked.
func (c *Chain) order() []*endpoint { return outage.Order(c.endpoints) }

// one asks nodes in turn until one answers. What a node says that it does not know, as it may have forgotten it or not have it yet, another may know; if none does, its error is the
// answer.
func one[T any](ctx context.Context, c *Chain, ask func(context.Context, *endpoint) (T, error)) (answer T, err error) {
	var errs []error
	for _, e := range c.order() {
		part, cancel := context.WithTimeout(ctx, c.timeout)
		answer, err = ask(part, e)
		cancel()
		if err == nil {
			return answer, nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return answer, errors.Join(errs...)
}

// question is one of a node, for one.
func question[T any](method string, params any) func(context.Context, *endpoint) (T, error) {
	return func(ctx context.Context, e *endpoint) (answer T, err error) {
		err = e.call(ctx, method, params, &answer)
		return answer, err
	}
}

func (c *Chain) block(ctx context.Context, which object) (block, error) {
	return one(ctx, c, func(ctx context.Context, e *endpoint) (block, error) { return e.block(ctx, which) })
}

func (c *Chain) accessKey(ctx context.Context, s signer, which object) (accessKey, error) {
	return one(ctx, c, func(ctx context.Context, e *endpoint) (accessKey, error) { return e.accessKey(ctx, s, which) })
}

type object map[string]any

// block is a block's header and its chunks.
type block struct {
	Header struct {
		Height uint64 `json:"height"`
		Hash   string `json:"hash"`
		Time   int64  `json:"timestamp"` // nanoseconds
	} `json:"header"`
	Chunks []struct {
		Hash     string `json:"chunk_hash"`
		Included uint64 `json:"height_included"`
	} `json:"chunks"`
}

func (e *endpoint) block(ctx context.Context, which object) (b block, err error) {
	err = e.call(ctx, "block", which, &b)
	if err == nil && b.Header.Hash == "" {
		err = errors.New(e.name + " shows a block without its hash")
	}
	return b, err
}

var (
	final      = object{"finality": "final"}
	optimistic = object{"finality": "optimistic"}
)

// accessKey is what a node says of a key after a block.
type accessKey struct {
	Nonce  uint64 `json:"nonce"`
	Height uint64 `json:"block_height"`
	Hash   string `json:"block_hash"`
	// Permission is what the key may sign, as near.ParsePermission reads it.
	Permission json.RawMessage `json:"permission"`
	Error      string          `json:"error"` // nearcore answers a key that is not there as a result
}

// errNoKey says that an account has no such access key.
var errNoKey = errors.New("the account has no such access key")

func (e *endpoint) accessKey(ctx context.Context, s signer, which object) (k accessKey, err error) {
	params := object{"request_type": "view_access_key", "account_id": s.account, "public_key": s.key.String()}
	maps.Copy(params, which)
	// An answer without a nonce would have that of a key that was never used, and so prove that
	// a transaction was not executed.
	shown := struct {
		*accessKey
		Nonce *uint64 `json:"nonce"`
	}{accessKey: &k}
	switch err = e.call(ctx, "query", params, &shown); {
	case err != nil:
	case k.Error != "":
		err = fmt.Errorf("%s: %s: %w", e.name, k.Error, errNoKey)
	case shown.Nonce == nil || k.Height == 0 || k.Hash == "":
		err = errors.New(e.name + " does not say the key's nonce, or after which block")
	default:
		k.Nonce = *shown.Nonce
	}
	return k, err
}
