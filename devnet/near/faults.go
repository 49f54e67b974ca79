package near

import "sync"

// Fault is a way in which a node misbehaves.
type Fault int

// The faults.
const (
	LostReply   Fault = iota // the node acts, and the connection breaks
	LostRequest              // the connection breaks before the node acts
	Late                     // the node acts, and its reply comes blocks later
	Congested                // the node refuses what is sent
)

// Faults are what a node will do wrong. The zero value is none.
type Faults struct {
	mu   sync.Mutex
	left map[rule]int
}

type rule struct {
	method string
	fault  Fault
}

// Next makes the next calls of a method meet a fault. send_tx is every way to send.
func (f *Faults) Next(method string, fault Fault, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == nil {
		f.left = map[rule]int{}
	}
	f.left[rule{method, fault}] += times
}

// take reports whether a call meets a fault.
func (f *Faults) take(method string, fault Fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := rule{method, fault}
	if f.left[r] == 0 {
		return false
	}
	f.left[r]--
	return true
}

// Left is how many faults wait for their call.
func (f *Faults) Left() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, times := range f.left {
		n += times
	}
	return n
}
