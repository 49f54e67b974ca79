package txm_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// maxOpen bounds the callers who wait at once.
const maxOpen = 500

// load is callers who keep the contract: each asks again with the same key until it has an
// answer.
type load struct {
	m      *managers
	stop   context.CancelFunc
	group  sync.WaitGroup
	late   atomic.Int64 // calls that had to be repeated
	places chan struct{}

	mu       sync.Mutex
	accepted map[string][]byte // intent → topic
}

func startLoad(m *managers, rate int) *load {
	ctx, stop := context.WithCancel(m.t.Context())
	l := &load{m: m, stop: stop, places: make(chan struct{}, maxOpen), accepted: map[string][]byte{}}
	l.group.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			select {
			case l.places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			l.group.Go(func() {
				defer func() { <-l.places }()
				l.one(n)
			})
		}
	})
	return l
}

// one hands over one transaction, sometimes twice at once.
func (l *load) one(n int) {
	word := topic()
	key := fmt.Sprintf("key-%d", n)
	body := map[string]any{"chain": 31337, "to": counter, "data": "0x" + hex.EncodeToString(word), "gas": "60000", "simulate": "off"}
	if n%10 == 0 {
		body["orderKey"] = fmt.Sprintf("trader-%d", n/10%5)
	}
	text, err := json.Marshal(body)
	if err != nil {
		l.m.t.Error(err)
		return
	}
	ids := make([]string, 1+n%20/19)
	var both sync.WaitGroup
	for i := range ids {
		both.Go(func() { ids[i] = l.insist(key, string(text)) })
	}
	both.Wait()
	for _, id := range ids {
		if id != ids[0] {
			l.m.t.Errorf("key %s has intents %s and %s", key, ids[0], id)
		}
	}
	if ids[0] != "" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.accepted[ids[0]] = word
	}
}

// insist asks one process after the other until one has accepted.
func (l *load) insist(key, body string) string {
	began := time.Now()
	for try := 0; time.Since(began) < 20*time.Minute; try++ {
		var answer struct{ ID string }
		name := l.m.names[rand.IntN(len(l.m.names))]
		status := ask("POST", l.m.urls[name]+"/v1/transactions", body, key, &answer)
		switch {
		case status/100 == 2 && answer.ID != "":
			return answer.ID
		case status/100 == 4:
			l.m.t.Errorf("key %s: refused with %d", key, status)
			return ""
		case try == 0:
			l.late.Add(1)
		}
		<-time.After(time.Duration(50+rand.IntN(400)) * time.Millisecond)
	}
	l.m.t.Errorf("key %s was never accepted", key)
	return ""
}

// end stops offering and waits until every caller has its answer.
func (l *load) end() {
	l.stop()
	l.group.Wait()
}

var client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// ask makes one call and returns its status, 0 without an answer.
func ask(method, url, body, key string, into any) int {
	header := http.Header{}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	return askWith(header, method, url, body, into)
}

// askWith makes one call with headers.
func askWith(header http.Header, method, url, body string, into any) int {
	request, err := http.NewRequest(method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0
	}
	request.Header = header
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	if into != nil && json.NewDecoder(response.Body).Decode(into) != nil {
		return 0
	}
	return response.StatusCode
}
