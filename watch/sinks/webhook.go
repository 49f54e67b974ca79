package sinks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"lockstep/internal/secret"
	"lockstep/internal/webhook"
	"lockstep/watch"
	"lockstep/watch/body"
)

const (
	// posters is how many contracts' messages are posted at a time.
	posters = 8
	// postTimeout bounds one post.
	postTimeout = 3 * time.Second
	// longestWait bounds how long a receiver may ask to be left alone.
	longestWait = time.Hour
)

// hook posts messages. Those of one contract go one after the other, those of several at the same time.
type hook struct {
	url     string
	secrets []secret.String
	sender  *webhook.Sender
	maker   *body.Maker // nil: the message itself is posted
	slots   int         // how many are posted at a time

	mu   sync.Mutex
	rest time.Time // guarded by mu; the receiver wants to be left alone until then
}

func newWebhook(spec watch.SinkSpec, deps Deps) (*hook, error) {
	h := &hook{url: spec.Target, secrets: deps.WebhookSecrets, slots: posters}
	if spec.Kind != watch.SinkWebhook || spec.Template != "" {
		text := ""
		if spec.Template != "" {
			text = deps.Plan.Templates[spec.Template]
		}
		maker, err := body.New(spec.Kind, text, spec.Target)
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", spec.Kind, err)
		}
		h.maker, h.url = maker, maker.URL()
	}
	if err := deps.Guard.Check(h.url); err != nil {
		return nil, fmt.Errorf("sink %s: %w", spec.Kind, withSetting(err))
	}
	if spec.Kind != watch.SinkWebhook {
		h.slots = 1 // people read one after the other
	} else if len(deps.WebhookSecrets) == 0 {
		return nil, errors.New("sink webhook: there is no secret to sign with: set WATCH_WEBHOOK_SECRET, for example to whsec_$(openssl rand -base64 32)")
	}
	for _, s := range deps.WebhookSecrets {
		if err := webhook.CheckSecret(s); err != nil {
			return nil, fmt.Errorf("sink %s: %w", spec.Kind, err)
		}
	}
	h.sender = webhook.NewSender(deps.Guard, postTimeout, deps.Agent)
	return h, nil
}

// withSetting adds to a private address's error which setting allows it.
func withSetting(err error) error {
	if errors.Is(err, webhook.ErrPrivate) {
		return fmt.Errorf("%w: WATCH_WEBHOOK_ALLOW says which ones may be reached", err)
	}
	return err
}

// Publish implements watch.Sink.
func (h *hook) Publish(ctx context.Context, batch []watch.Message) []error {
	return perContract(batch, h.slots, func(i int) error { return h.post(ctx, &batch[i]) })
}

func (h *hook) post(ctx context.Context, m *watch.Message) error {
	h.mu.Lock()
	rest := h.rest
	h.mu.Unlock()
	if time.Now().Before(rest) {
		return fmt.Errorf("the receiver wants to be left alone until %s", rest.UTC().Format(time.RFC3339))
	}
	text := m.Body
	if h.maker != nil {
		var err error
		if text, err = h.maker.Make(m.Body); err != nil {
			return fmt.Errorf("%w: %w", watch.ErrSettled, err)
		}
	}
	_, err := h.sender.Send(ctx, webhook.Message{ID: m.Delivery, URL: h.url, Secrets: h.secrets, Body: text, Unsigned: h.maker != nil})
	var refused *webhook.StatusError
	if !errors.As(err, &refused) {
		return withSetting(err)
	}
	var verdict body.Verdict
	if h.maker != nil {
		verdict = h.maker.Judge(refused.Status, refused.Answer)
	}
	if wait := max(refused.RetryAfter, verdict.Wait); wait > 0 {
		h.mu.Lock()
		h.rest = time.Now().Add(min(wait, longestWait))
		h.mu.Unlock()
	}
	if verdict.Why != "" {
		err = fmt.Errorf("%w: %s", err, verdict.Why)
	}
	if verdict.Settled || refused.Status == http.StatusRequestEntityTooLarge { // of which the message stays what it is
		err = fmt.Errorf("%w: %w", watch.ErrSettled, err)
	}
	return err
}

// perContract hands messages on one by one: those of one contract one after the other, those of some contracts at the same time. It returns what
// became of each.
func perContract(batch []watch.Message, most int, send func(i int) error) []error {
	queues, order := map[string][]int{}, []string{}
	for i, m := range batch {
		if queues[m.Address] == nil {
			order = append(order, m.Address)
		}
		queues[m.Address] = append(queues[m.Address], i)
	}
	errs := make([]error, len(batch))
	slots := make(chan struct{}, most)
	var group sync.WaitGroup
	for _, address := range order {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			sendAll(queues[address], send, errs)
		})
	}
	group.Wait()
	return errs
}

// errBehind marks messages that were not sent because one before them was not taken.
var errBehind = errors.New("a message before it was not taken")

func sendAll(indexes []int, send func(i int) error, errs []error) {
	for n, i := range indexes {
		err := send(i)
		if err == nil {
			continue
		}
		errs[i] = err
		if errors.Is(err, watch.ErrSettled) {
			continue
		}
		for _, behind := range indexes[n+1:] {
			errs[behind] = errBehind
		}
		return
	}
}

// Close implements watch.Sink.
func (h *hook) Close() {}
