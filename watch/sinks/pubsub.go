package sinks

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"cloud.google.com/go/pubsub/v2"
	"google.golang.org/api/option"

	"lockstep/watch"
)

// cloudTopic publishes messages to a Google Pub/Sub topic. The ordering key is the contract.
type cloudTopic struct {
	project, name string
	options       []option.ClientOption

	mu        sync.Mutex
	client    *pubsub.Client
	publisher *pubsub.Publisher
}

func newPubSub(project, name string, options []option.ClientOption) *cloudTopic {
	return &cloudTopic{project: project, name: name, options: options}
}

func (t *cloudTopic) connected(ctx context.Context) (*pubsub.Publisher, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.publisher != nil {
		return t.publisher, nil
	}
	client, err := pubsub.NewClient(context.WithoutCancel(ctx), t.project, t.options...)
	if err != nil {
		return nil, fmt.Errorf("Pub/Sub: %w", err)
	}
	t.client, t.publisher = client, client.Publisher(t.name)
	t.publisher.EnableMessageOrdering = true
	return t.publisher, nil
}

// Publish implements watch.Sink. After a failure the client holds the later messages of that contract back, so that their
// order stays; they are sent again from the one that failed.
func (t *cloudTopic) Publish(ctx context.Context, batch []watch.Message) []error {
	publisher, err := t.connected(ctx)
	if err != nil {
		return all(batch, err)
	}
	results := make([]*pubsub.PublishResult, len(batch))
	for i, m := range batch {
		results[i] = publisher.Publish(ctx, &pubsub.Message{
			Data: m.Body, OrderingKey: m.Address, Attributes: map[string]string{"id": m.Delivery, "event_id": m.EventID, "event": m.Event.Event, "watch": m.Watch},
		})
	}
	publisher.Flush()
	errs := make([]error, len(batch))
	for i, r := range results {
		_, err := r.Get(ctx)
		if err == nil {
			continue
		}
		if errors.Is(err, pubsub.ErrOversizedMessage) {
			err = fmt.Errorf("%w: %w", watch.ErrSettled, err)
		}
		errs[i] = fmt.Errorf("Pub/Sub topic %s: %w", t.name, err)
		defer publisher.ResumePublish(batch[i].Address)
	}
	return errs
}

// Close implements watch.Sink.
func (t *cloudTopic) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client != nil {
		t.publisher.Stop()
		_ = t.client.Close()
	}
}
