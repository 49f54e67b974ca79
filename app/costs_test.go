package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"lockstep/internal/hedera"
	"lockstep/mirror"
)

// A cost that the mirror node does not tell in time is counted as missed, once; one that it tells late is not.
func TestCostsThatAreMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never, late := hedera.TransactionID{Payer: hedera.Entity(1)}, hedera.TransactionID{Payer: hedera.Entity(2)}
		asked := map[hedera.TransactionID]int{}
		c := newCosts(func(_ context.Context, id hedera.TransactionID) (hedera.Tinybar, *mirror.Transaction, error) {
			switch asked[id]++; {
			case id == late && asked[id] == costLooks:
				return 7, &mirror.Transaction{Name: "FILEDELETE", Result: "SUCCESS"}, nil
			case asked[id]%2 == 0:
				return 0, nil, nil
			}
			return 0, nil, errors.New("away")
		}, nil)
		for _, id := range []hedera.TransactionID{never, late} {
			one := charged{id: id}
			for range costLooks {
				c.look(t.Context(), one)
				if len(c.queue) > 0 {
					one = <-c.queue
				}
			}
		}
		var missed dto.Metric
		if err := c.missed.Write(&missed); err != nil || missed.GetCounter().GetValue() != 1 {
			t.Errorf("missed: %v, %v", &missed, err)
		}
		if asked[never] != costLooks || asked[late] != costLooks {
			t.Errorf("asked %v", asked)
		}
		for range maxCharged + 3 { // more than the queue holds
			c.enqueue(charged{due: time.Now()})
		}
		if err := c.missed.Write(&missed); err != nil || missed.GetCounter().GetValue() != 4 {
			t.Errorf("missed, with those that did not fit: %v, %v", &missed, err)
		}
	})
}
