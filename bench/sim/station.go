package sim

import (
	"container/heap"
	"time"
)

// world is a clock and what happens next.
type world struct {
	now    time.Duration
	made   uint64
	events events
}

type event struct {
	at    time.Duration
	order uint64 // of those at one time, the first made is first
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }

func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return last
}

// after does something later.
func (w *world) after(d time.Duration, do func()) {
	w.made++
	heap.Push(&w.events, event{w.now + d, w.made, do})
}

// run goes on until nothing is left to happen, or until the time given.
func (w *world) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= until {
		next := heap.Pop(&w.events).(event)
		w.now = next.at
		next.do()
	}
}

// station has processors and one line in front of them.
type station struct {
	world      *world
	processors int
	busy       int
	line       []job
	head       int // of the line

	// Since reset:
	since   time.Duration
	changed time.Duration
	inside  int           // waiting or worked on
	worked  time.Duration // processor time
	area    time.Duration // of inside over time
	left    int
	stayed  time.Duration // of those that left, from coming to leaving
}

type job struct {
	work time.Duration
	came time.Duration
	then func()
}

func (w *world) station(processors int) *station { return &station{world: w, processors: processors} }

// do works for a time, when a processor is free, and then goes on.
func (s *station) do(work time.Duration, then func()) {
	s.count()
	s.inside++
	j := job{work, s.world.now, then}
	if s.busy == s.processors {
		s.line = append(s.line, j)
		return
	}
	s.begin(j)
}

func (s *station) begin(j job) {
	s.busy++
	s.world.after(j.work, func() {
		s.count()
		s.inside--
		s.busy--
		s.left++
		s.stayed += s.world.now - j.came
		if s.head < len(s.line) {
			next := s.line[s.head]
			s.line[s.head] = job{}
			s.head++
			if s.head == len(s.line) {
				s.line, s.head = s.line[:0], 0
			} else if s.head > 1024 && s.head > len(s.line)/2 {
				s.line, s.head = append(s.line[:0], s.line[s.head:]...), 0
			}
			s.begin(next)
		}
		j.then()
	})
}

// count adds up what was since the last change.
func (s *station) count() {
	d := s.world.now - s.changed
	s.worked += d * time.Duration(s.busy)
	s.area += d * time.Duration(s.inside)
	s.changed = s.world.now
}

// reset forgets what was counted.
func (s *station) reset() {
	s.since, s.changed = s.world.now, s.world.now
	s.worked, s.area, s.left, s.stayed = 0, 0, 0, 0
}

// utilisation is the share of the processors' time that was worked.
func (s *station) utilisation() float64 {
	s.count()
	if s.world.now == s.since {
		return 0
	}
	return float64(s.worked) / float64(s.world.now-s.since) / float64(s.processors)
}
