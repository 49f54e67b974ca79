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
)

const (
	// posters is how many contracts' messages are posted at a time.
	posters = 8
	// postTimeout bounds one post.
	postTimeout = 3 * time.Second
)

// hook posts messages. Those of one contract go one after the other, those of several at the same time.
type hook struct {
	url     string
	secrets []secret.String
	sender  *webhook.Sender
}

func newWebhook(url string, deps Deps) (*hook, error) {
	if err := deps.Guard.Check(url); err != nil {
		return nil, fmt.Errorf("sink webhook: %w", err)
	}
	if len(deps.WebhookSecrets) == 0 {
		return nil, errors.New("sink webhook: there is no secret to sign with: set WATCH_WEBHOOK_SECRET")
	}
	for _, s := range deps.WebhookSecrets {
		if err := webhook.CheckSecret(s); err != nil {
			return nil, fmt.Errorf("sink webhook: %w", err)
		}
	}
	return &hook{url: url, secrets: deps.WebhookSecrets, sender: webhook.NewSender(deps.Guard, postTimeout, deps.Agent)}, nil
}

// Publish implements watch.Sink.
func (h *hook) Publish(ctx context.Context, batch []watch.Message) (int, error) {
	return perContract(batch, func(i int) error {
		status, err := h.sender.Send(ctx, webhook.Message{ID: batch[i].Delivery, URL: h.url, Secrets: h.secrets, Body: batch[i].Body})
		if status == http.StatusRequestEntityTooLarge { // of which the message stays what it is
			err = fmt.Errorf("%w: %w", watch.ErrSettled, err)
		}
		return err
	})
}

// perContract hands messages on one by one: those of one contract one after the other, those of several at the same time. It returns how many
// were taken from the first one on, and if that is not all, what became of each.
func perContract(batch []watch.Message, send func(i int) error) (int, error) {
	queues, order := map[string][]int{}, []string{}
	for i, m := range batch {
		if queues[m.Address] == nil {
			order = append(order, m.Address)
		}
		queues[m.Address] = append(queues[m.Address], i)
	}
	errs := make([]error, len(batch))
	slots := make(chan struct{}, posters)
	var group sync.WaitGroup
	for _, address := range order {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			sendAll(queues[address], send, errs)
		})
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			return i, &watch.Partly{Errs: errs}
		}
	}
	return len(batch), nil
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
