package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/proto"

	"lockstep/internal/clip"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/sleep"
)

// Defaults and bounds of requests.
const (
	DefaultTimeout = 10 * time.Second

	atOnce    = 16       // requests
	maxAnswer = 32 << 20 // bytes
	maxReason = 200      // bytes of an answer that an error shows
	attempts  = 4
	firstRest = 200 * time.Millisecond // before the second attempt; doubled for each one after
)

// Config says which network is forked, and where.
type Config struct {
	URL     string        // of the mirror node, with or without /api/v1
	Block   *int64        // the fork point; nil: the newest block
	Timeout time.Duration // of one request with all its attempts; DefaultTimeout

	CacheBytes int64 // of facts that the ledger keeps, roughly; 64 MiB
}

// Mirror is the mirror node of the network that is forked. It is safe for concurrent use.
type Mirror struct {
	ctx     context.Context // ends what asks for facts
	keeps   int64           // bytes
	base    *url.URL        // without /api/v1
	timeout time.Duration
	client  *http.Client
	places  chan struct{}
	block   block
	at      string // fork point, as the API writes times
}

// Open finds the fork point. The context ends requests for facts, now and later.
func Open(ctx context.Context, cfg Config) (*Mirror, error) {
	base, err := url.Parse(strings.TrimSuffix(strings.TrimSuffix(cfg.URL, "/"), "/api/v1"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("want the http:// or https:// URL of a mirror node")
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = atOnce, atOnce
	m := &Mirror{
		ctx: ctx, keeps: cfg.CacheBytes, base: base, timeout: cfg.Timeout, places: make(chan struct{}, atOnce),
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	if err := m.findBlock(cfg.Block); err != nil {
		return nil, err
	}
	m.at = m.block.Timestamp.To.String()
	return m, nil
}

// Name is the upstream without what may be secret in its URL.
func (m *Mirror) Name() string { return m.base.Scheme + "://" + m.base.Host }

// Close ends idle connections.
func (m *Mirror) Close() { m.client.CloseIdleConnections() }

// answer is what the mirror node answered.
type answer struct {
	status int
	body   []byte
}

// Get reads a path below /api/v1/, with its query.
func (m *Mirror) Get(ctx context.Context, path string) (status int, body []byte, err error) {
	a, err := m.ask(ctx, http.MethodGet, path, nil)
	return a.status, a.body, err
}

// Post sends JSON.
func (m *Mirror) Post(ctx context.Context, path string, body []byte) (status int, answered []byte, err error) {
	a, err := m.ask(ctx, http.MethodPost, path, body)
	return a.status, a.body, err
}

// ask tries again where the mirror node is busy.
func (m *Mirror) ask(ctx context.Context, method, path string, body []byte) (a answer, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.timeout, fmt.Errorf("no answer within %s", m.timeout))
	defer cancel()
	select {
	case m.places <- struct{}{}:
		defer func() { <-m.places }()
	case <-ctx.Done():
		return answer{}, m.failed(path, context.Cause(ctx))
	}
	rest := firstRest
	for attempt := 1; ; attempt++ {
		a, err = m.try(ctx, method, path, body)
		switch {
		case ctx.Err() != nil && err != nil:
			return answer{}, m.failed(path, context.Cause(ctx))
		case err != nil:
			return answer{}, m.failed(path, err)
		case a.status == http.StatusNotFound && !saysSo(a.body):
			return answer{}, m.failed(path, refused(a))
		case a.status != http.StatusTooManyRequests && a.status < http.StatusInternalServerError:
			return a, nil
		case attempt == attempts:
			return answer{}, m.failed(path, refused(a))
		}
		if !sleep.For(ctx, rest) {
			return answer{}, m.failed(path, refused(a))
		}
		rest *= 2
	}
}

func refused(a answer) error {
	text := a.body[:min(len(a.body), maxReason)]
	return fmt.Errorf("status %d: %s", a.status, bytes.ToValidUTF8(text, nil))
}

// failed hides all of the URL but its host: a key may be in it.
func (m *Mirror) failed(path string, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	path, _, _ = strings.Cut(path, "?")
	return fmt.Errorf("%s %s: %w", m.Name(), path, err)
}

func (m *Mirror) try(ctx context.Context, method, path string, body []byte) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, m.base.String()+"/api/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := m.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	text, err := clip.ReadAll(response.Body, maxAnswer)
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("its answer: %w", err)
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return answer{}, fmt.Errorf("status %d: redirects are not followed", response.StatusCode)
	}
	return answer{status: response.StatusCode, body: text}, nil
}

// read decodes a fact; found is false where the mirror node has no such thing.
func read[V any](m *Mirror, path string) (v V, found bool, err error) {
	a, err := m.ask(m.ctx, http.MethodGet, path, nil)
	switch {
	case err != nil:
		return v, false, err
	case a.status == http.StatusNotFound:
		return v, false, nil
	case a.status != http.StatusOK:
		return v, false, m.failed(path, refused(a))
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		return v, false, m.failed(path, fmt.Errorf("its answer has another form: %w", err))
	}
	return v, true, nil
}

// saysSo tells whether a 404 has the body of a mirror node's. That of a gateway in front of it says nothing of what there is.
func saysSo(body []byte) bool {
	var answer struct {
		Status json.RawMessage `json:"_status"`
	}
	return json.Unmarshal(body, &answer) == nil && answer.Status != nil
}

// The forms of values in the API.

// id is an entity's; null and the empty text are none.
type id struct{ hedera.ID }

func (v *id) UnmarshalText(text []byte) (err error) {
	if len(text) > 0 {
		v.ID, err = hedera.ParseID(string(text))
	}
	return err
}

type timestamp struct{ hedera.Timestamp }

func (v *timestamp) UnmarshalText(text []byte) (err error) {
	v.Timestamp, err = hedera.ParseTimestamp(string(text))
	return err
}

// hexBytes are digits with or without 0x.
type hexBytes []byte

func (v *hexBytes) UnmarshalText(text []byte) (err error) {
	*v, err = hex.DecodeString(strings.TrimPrefix(string(text), "0x"))
	return err
}

// address is zero for null.
type address common.Address

func (v *address) UnmarshalText(text []byte) error { return (*common.Address)(v).UnmarshalText(text) }

type alias []byte

func (v *alias) UnmarshalText(text []byte) (err error) {
	*v, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(string(text))
	return err
}

type base64Bytes []byte

func (v *base64Bytes) UnmarshalText(text []byte) (err error) {
	*v, err = base64.StdEncoding.DecodeString(string(text))
	return err
}

// number is an integer, which some endpoints write as text. Null is zero.
type number int64

func (v *number) UnmarshalJSON(text []byte) error {
	text = bytes.Trim(text, `"`)
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	*v = number(n)
	return err
}

type key struct {
	Type string   `json:"_type"`
	Key  hexBytes `json:"key"`
}

// value is nil for no key.
func (k *key) value() (*hapi.Key, error) {
	if k == nil || len(k.Key) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	switch k.Type {
	case "ED25519":
		return &hapi.Key{Key: &hapi.Key_Ed25519{Ed25519: k.Key}}, nil
	case "ECDSA_SECP256K1":
		return &hapi.Key{Key: &hapi.Key_ECDSASecp256K1{ECDSASecp256K1: k.Key}}, nil
	}
	out := new(hapi.Key)
	if err := proto.Unmarshal(k.Key, out); err != nil {
		return nil, fmt.Errorf("a key cannot be read: %w", err)
	}
	return out, nil
}

func accountOf(v id) *hapi.AccountID {
	return &hapi.AccountID{Account: &hapi.AccountID_AccountNum{AccountNum: v.Num}}
}

func tokenOf(v id) *hapi.TokenID {
	if v.IsZero() {
		return nil
	}
	return &hapi.TokenID{TokenNum: v.Num}
}
