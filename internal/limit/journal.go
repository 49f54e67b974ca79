package limit

import "sync"

// journal adds up what a process spent without telling Redis, in one window: the newest.
type journal struct {
	maxBooks int

	mu      sync.Mutex
	window  window
	amounts map[string]int64 // by book; guarded by mu, like all here
	number  int64            // of the last message
}

func newJournal(maxBooks int) *journal {
	return &journal{maxBooks: maxBooks, amounts: map[string]int64{}}
}

// message is a part of a journal on its way to Redis. Its number tells it from others of
// the process, so that it counts once even if it is sent again.
type message struct {
	window  window
	number  int64
	amounts map[string]int64
}

// messageBooks is the maximum of books that one message is about.
const messageBooks = 500

// add notes an amount for each of some books and reports whether there is news.
func (j *journal) add(w window, books []string, amount int64) bool {
	if amount == 0 {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if w.start > j.window.start {
		j.window = w
		clear(j.amounts)
	}
	if w != j.window {
		return false
	}
	for _, name := range books {
		if _, known := j.amounts[name]; known || len(j.amounts) < j.maxBooks {
			j.amounts[name] += amount
		}
	}
	return true
}

// next takes a message out of the journal; nil when it is empty.
func (j *journal) next() *message {
	j.mu.Lock()
	defer j.mu.Unlock()
	m := &message{window: j.window, amounts: map[string]int64{}}
	for name, amount := range j.amounts {
		delete(j.amounts, name)
		if amount != 0 { // it was given back meanwhile
			m.amounts[name] = amount
		}
		if len(m.amounts) == messageBooks {
			break
		}
	}
	if len(m.amounts) == 0 {
		return nil
	}
	j.number++
	m.number = j.number
	return m
}
