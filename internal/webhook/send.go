package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"

	"lockstep/internal/secret"
	"lockstep/internal/sleep"
)

// maxAnswer bounds what is read of an answer: enough for the connection to be used again.
const maxAnswer = 64 << 10

// maxWords is how much is kept of an answer that refuses.
const maxWords = 4 << 10

// wordsWait is how long the body of an answer is waited for.
const wordsWait = 500 * time.Millisecond

// longestWait is how long a receiver may ask for: others have their turn, and deliveries end after some days.
const longestWait = 24 * time.Hour

// Message is one event for one receiver.
type Message struct {
	ID      string // the same whenever it is sent again
	URL     string
	Secrets []secret.String // one, or two while the secret is rotated
	Body    []byte          // JSON
	Header  http.Header     // more headers, or nil
	// Unsigned says that the receiver looks for no signature: without secrets there is none.
	Unsigned bool
}

// StatusError means that the receiver answered with another status than 2xx.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // what the receiver asked for; 0: nothing
	Answer     []byte        // how its body begins; it may say what is wrong, in a stranger's words
}

func (e *StatusError) Error() string { return fmt.Sprintf("the receiver answered %d", e.Status) }

// Sender posts messages. It is safe for concurrent use.
type Sender struct {
	client *http.Client
	agent  string
}

// NewSender makes a sender whose connections the guard watches. Timeout bounds one
// attempt, the answer included.
func NewSender(guard Guard, timeout time.Duration, agent string) *Sender {
	dialer := &net.Dialer{Timeout: timeout, Control: guard.control}
	return &Sender{agent: agent, client: &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConns: 100, MaxIdleConnsPerHost: 4,
			IdleConnTimeout: time.Minute, TLSHandshakeTimeout: timeout, MaxResponseHeaderBytes: maxAnswer,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Send posts a message once and returns the status of the answer, 0 if there was none. The
// error is nil if the receiver answered 2xx, a *StatusError if it answered otherwise, and
// wraps ErrPrivate if the address is not allowed. It never shows the secret or the URL's path,
// in which receivers keep tokens.
func (s *Sender) Send(ctx context.Context, m Message) (int, error) {
	now := time.Now()
	var signature string
	if !m.Unsigned || len(m.Secrets) > 0 {
		var err error
		if signature, err = Sign(m.Secrets, m.ID, now, m.Body); err != nil {
			return 0, err
		}
	}
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return 0, errors.New("not a URL")
	}
	maps.Copy(request.Header, m.Header)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", s.agent)
	request.Header.Set("webhook-id", m.ID)
	request.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	if signature != "" {
		request.Header.Set("webhook-signature", signature)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, cause(err)
	}
	defer func() { _ = response.Body.Close() }()
	defer time.AfterFunc(wordsWait, enough).Stop()                   // the status is the answer, however long the words take
	answer, _ := io.ReadAll(io.LimitReader(response.Body, maxWords)) // what came of it says what it says
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
	if response.StatusCode/100 == 2 {
		return response.StatusCode, nil
	}
	return response.StatusCode, &StatusError{Status: response.StatusCode, RetryAfter: sleep.RetryAfter(response.Header.Get("Retry-After"), now, longestWait), Answer: answer}
}

// cause drops what an error of net/http says of the URL.
func cause(err error) error {
	var timeout interface{ Timeout() bool }
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var op *net.OpError
	switch {
	case errors.Is(err, ErrPrivate):
		return ErrPrivate
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &dns):
		return errors.New("the name does not resolve")
	case errors.As(err, &unknown), errors.As(err, &name):
		return errors.New("the certificate is not trusted")
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("no answer in time")
	case errors.As(err, &op):
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	default:
		return errors.New("the connection failed")
	}
}

// Close closes idle connections.
func (s *Sender) Close() { s.client.CloseIdleConnections() }
