package diff

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/clip"
)

// peer is a relay that is asked.
type peer struct {
	name string // "a" or "b"; the URL is never shown
	to   Endpoint
	http *http.Client
	most int64
}

func newPeer(name string, to Endpoint, c Config) *peer {
	return &peer{
		name: name, to: to, most: c.MaxAnswer,
		http: &http.Client{
			Timeout: c.Timeout,
			// No proxy: nothing but the URL given is contacted.
			Transport:     &http.Transport{MaxIdleConnsPerHost: c.Concurrency},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// answer is what a relay said.
type answer struct {
	status int
	body   []byte
}

// ask sends a body. The error says that there was no answer, or too long a one.
func (p *peer) ask(ctx context.Context, body []byte) (answer, error) {
	got, err := p.post(ctx, body)
	if err != nil {
		return got, fmt.Errorf("%s gave no answer that can be compared: %w", p.name, withoutURL(err))
	}
	return got, nil
}

func (p *peer) post(ctx context.Context, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.to.URL, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	maps.Copy(req.Header, p.to.Header)
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read or is of no use
	text, err := clip.ReadAll(resp.Body, p.most)
	return answer{resp.StatusCode, text}, err
}

// withoutURL leaves out the URL that net/http puts in front of an error.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// call asks for one result and decodes it.
func (p *peer) call(ctx context.Context, into any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	got, err := p.ask(ctx, body)
	if err != nil {
		return err
	}
	var reply struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(got.body, &reply); err != nil {
		return fmt.Errorf("%s answered %s with status %d and no JSON", p.name, method, got.status)
	}
	if reply.Error != nil {
		return fmt.Errorf("%s answered %s: %s", p.name, method, printable([]byte(reply.Error.Message), 200))
	}
	if err := json.Unmarshal(reply.Result, into); err != nil {
		return fmt.Errorf("%s answered %s with an unexpected result", p.name, method)
	}
	return nil
}

func (p *peer) head(ctx context.Context) (uint64, error) {
	var n hexutil.Uint64
	err := p.call(ctx, &n, "eth_blockNumber")
	return uint64(n), err
}
