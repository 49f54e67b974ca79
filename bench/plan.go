package bench

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// A request is one message of the schedule: consecutive places in the sending order
// of one sender. Transactions are numbered sender × Count + offset from its first
// nonce.
type request struct {
	sender int
	url    int           // index into Target.URLs
	due    time.Duration // after the start of the run
	txs    []int
}

// schedule lays out a run: the k-th request of every sender, then the k+1-th. It
// depends on the configuration and the number of URLs alone, so that two targets and
// two runs get the same one.
func schedule(c Config) []request {
	urls := len(c.URLs)
	orders := make([][]int, c.Senders)
	for s := range orders {
		orders[s] = sendingOrder(c, s)
	}
	perSender := (c.Count + c.Batch - 1) / c.Batch
	plan := make([]request, 0, perSender*c.Senders)
	for k := range perSender {
		for s := range c.Senders {
			url := s
			if !c.Sticky {
				url += k
			}
			plan = append(plan, request{
				sender: s,
				url:    url % urls,
				due:    time.Duration(k)*c.Spacing + c.Spacing*time.Duration(s)/time.Duration(c.Senders),
				txs:    orders[s][k*c.Batch : min((k+1)*c.Batch, c.Count)],
			})
		}
	}
	return plan
}

// sendingOrder is the order in which sender s sends its transactions: nonce order,
// shuffled inside windows if asked for.
func sendingOrder(c Config, s int) []int {
	order := make([]int, c.Count)
	for i := range order {
		order[i] = s*c.Count + i
	}
	if c.ShuffleWindow <= 1 {
		return order
	}
	h := fnv.New64a()
	h.Write([]byte(c.Seed))
	r := rand.New(rand.NewPCG(h.Sum64(), uint64(s)))
	for from := 0; from < len(order); from += c.ShuffleWindow {
		window := order[from:min(from+c.ShuffleWindow, len(order))]
		r.Shuffle(len(window), func(i, j int) { window[i], window[j] = window[j], window[i] })
	}
	return order
}
