package locksim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// event is one operation of the FIFO lock.
type event struct {
	kind  string // enter, grant, end, quit
	t     *Transaction
	order int // of the tickets of its relay
}

// fifo is the state of the lock: who is in line, who has the turn, and the last fence.
type fifo struct {
	line   string // a rune for each, oldest first
	out    string // likewise: who has lost its place
	holder rune   // 0 = nobody
	fence  uint64
	next   [8]int8 // of each relay, whose ticket joins next
}

func rank(t *Transaction) rune { return rune(t.Nonce) }

// model is a FIFO lock whose members may quit: by leaving, or with their relay.
var model = porcupine.Model{
	Init: func() any { return fifo{} },
	Step: func(state, input, _ any) (bool, any) {
		s, e := state.(fifo), input.(event)
		me := rank(e.t)
		switch e.kind {
		case "enter":
			if int(s.next[e.t.Relay]) != e.order {
				return false, s // the tickets of a relay join in their order
			}
			s.next[e.t.Relay]++
			s.line += string(me)
		case "grant":
			first, rest, _ := cutFirst(s.line)
			if s.holder != 0 || first != me || e.t.Fence <= s.fence {
				return false, s
			}
			s.holder, s.line, s.fence = me, rest, e.t.Fence
		case "end":
			if s.holder != me {
				return false, s
			}
			s.holder = 0
		case "quit": // whatever it had
			if s.line = strings.ReplaceAll(s.line, string(me), ""); s.holder == me {
				s.holder = 0
			}
		case "out": // its relay was taken for dead, perhaps
			if strings.ContainsRune(s.line, me) {
				s.line, s.out = strings.ReplaceAll(s.line, string(me), ""), s.out+string(me)
			}
		case "again": // then it joins again
			if strings.ContainsRune(s.out, me) {
				s.line, s.out = s.line+string(me), strings.ReplaceAll(s.out, string(me), "")
			}
		}
		return true, s
	},
	Hash: func(state any) uint64 {
		s, h := state.(fifo), fnv.New64a()
		_, _ = fmt.Fprint(h, s.line, "|", s.out, "|", s.holder, s.fence)
		return h.Sum64()
	},
}

func cutFirst(line string) (first rune, rest string, found bool) {
	for i, r := range line {
		if i > 0 {
			return first, line[i:], true
		}
		first, rest, found = r, "", true
	}
	return first, rest, found
}

// history has the porcupine judge the transactions: is there an order of what they did, each within its time, that a
// FIFO lock could have shown?
func (j *judgement) history(lived []*Transaction) {
	const forever, enough = math.MaxInt64, 2 * time.Second // it usually takes milliseconds, and some histories take for ever
	var ops []porcupine.Operation
	add := func(kind string, t *Transaction, order int, from Moment, to int64) {
		ops = append(ops, porcupine.Operation{ClientId: int(t.Nonce), Input: event{kind, t, order}, Call: int64(from.Step), Return: to})
	}
	// A turn is over when the next begins, and the fences tell which that is.
	byFence := slices.DeleteFunc(slices.Clone(lived), func(t *Transaction) bool { return !t.Granted.ever() })
	slices.SortFunc(byFence, func(a, b *Transaction) int { return cmp.Compare(a.Fence, b.Fence) })
	over := map[*Transaction]int64{}
	for i, t := range byFence {
		if over[t] = forever; i+1 < len(byFence) {
			over[t] = max(int64(byFence[i+1].Granted.Step), int64(t.Granted.Step))
		}
	}
	orders := map[int]int{}
	lived = slices.SortedFunc(slices.Values(lived), func(a, b *Transaction) int { return a.Entered.Step - b.Entered.Step })
	for _, t := range lived {
		joined := t.Granted.orEver(ever) // between relays arrival decides only as far as the ways to Redis tell: see places
		add("enter", t, orders[t.Relay], t.Entered, int64(joined.Step))
		orders[t.Relay]++
		if t.Granted.ever() {
			add("grant", t, 0, t.Entered, int64(t.Granted.Step))
		}
		switch {
		case t.Granted.ever() && t.Err == nil && t.Released.ever() && !j.faulted(t.Relay, t.Granted, t.Released):
			add("end", t, 0, t.Released, over[t])
		case t.Granted.ever():
			// It lost its turn, or died with it: nobody but Redis knows when.
			add("quit", t, 0, t.Granted, over[t])
		case t.Left.ever():
			add("quit", t, 0, t.Left, forever)
		default:
			add("quit", t, 0, t.Entered, forever) // it died in line
		}
		for _, l := range j.scenario.absences(t.Relay) {
			if waited := t.Granted.orEver(t.Over).orEver(ever); l.from.before(waited) && (l.to == ever || t.Entered.At < l.to.At+learns) {
				if add("out", t, 0, l.from, forever); l.to != ever {
					add("again", t, 0, l.to, forever)
				}
			}
		}
	}
	switch porcupine.CheckOperationsTimeout(model, ops, enough) {
	case porcupine.Illegal:
		j.fail("porcupine: no FIFO lock shows this history")
	case porcupine.Unknown:
		j.undecided = true
	case porcupine.Ok:
	}
}
