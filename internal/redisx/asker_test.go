package redisx

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/outage"
)

// refusal is an error that the server answered with.
type refusal string

func (e refusal) Error() string { return string(e) }
func (refusal) RedisError()     {}

// After a failure nobody asks for a while; then one caller finds out for all whether Redis is back, and another one if that
// gives up.
func TestAskerRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, pause = time.Second, time.Minute
		a := &Asker{timeout: timeout, pause: pause, outage: new(outage.Log)}
		ask := func(ctx context.Context, takes time.Duration, answer error) error {
			return a.Ask(ctx, func(ctx context.Context, _ redis.UniversalClient) error {
				select {
				case <-time.After(takes):
					return answer
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}
		want := func(what string, got, want error) {
			t.Helper()
			if !errors.Is(got, want) || (got == nil) != (want == nil) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		want("it answers", ask(t.Context(), 0, nil), nil)
		want("no such key", ask(t.Context(), 0, redis.Nil), redis.Nil)
		want("it answers still", ask(t.Context(), 0, nil), nil)
		want("it does not like the question", ask(t.Context(), 0, refusal("no list")), refusal("no list"))
		want("and answers the next", ask(t.Context(), 0, nil), nil)
		want("it fails", ask(t.Context(), 0, io.EOF), io.EOF)
		want("it is left alone", ask(t.Context(), 0, nil), ErrResting)
		<-time.After(pause)
		tried := make(chan error)
		gives, up := context.WithCancel(t.Context())
		go func() { tried <- ask(gives, time.Hour, nil) }()
		synctest.Wait()
		want("another one tries", ask(t.Context(), 0, nil), ErrResting)
		up()
		want("that gives up", <-tried, context.Canceled)
		want("the next one tries", ask(t.Context(), time.Hour, nil), context.DeadlineExceeded)
		want("it is left alone again", ask(t.Context(), 0, nil), ErrResting)
		<-time.After(pause)
		want("it is back", ask(t.Context(), 0, nil), nil)
		want("for everybody", ask(t.Context(), 0, nil), nil)
	})
}

// Where there is no Redis, or it does not answer, the process decides by itself; a caller that has gone is no Redis that has.
func TestElse(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	answers := func(ctx context.Context, _ redis.UniversalClient) (string, error) { return "fleet", ctx.Err() }
	fails := func(context.Context, redis.UniversalClient) (string, error) { return "", io.EOF }
	alone := func() string { return "alone" }
	there := &Asker{timeout: time.Minute, pause: time.Minute, outage: new(outage.Log)}
	for i, got := range []string{Else(gone, NewAsker(nil, AskerOptions{}), answers, alone), Else(gone, there, answers, alone), Else(gone, there, fails, alone), Else(gone, there, answers, alone)} {
		if want := []string{"alone", "fleet", "alone", "alone"}[i]; got != want {
			t.Errorf("question %d: %s, want %s", i, got, want)
		}
	}
}
