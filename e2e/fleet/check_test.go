package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// allowance is what a scenario makes unavoidable. The zero value allows nothing:
// every transaction is accepted, in time, and executed once and in order.
type allowance struct {
	refused func(answer) bool // refusals that are right
	lost    func(answer) bool // answers that cannot come
	resent  bool              // clients sent again what may have been executed: then it is refused by the network
	slow    time.Duration     // for an answer, instead of the normal time
}

func anybody(answer) bool { return true }

// check compares what clients were told with what the network did.
func (n *network) check(answers []answer, a allowance) {
	n.t.Helper()
	found := problems(n.decisions(), answers, a)
	if count := len(found); count > 0 {
		const shown = 10 // first and last: the order, then the answers
		if count > 2*shown {
			found = slices.Concat(found[:shown], []string{"…"}, found[count-shown:])
		}
		n.t.Errorf("%d problems:\n%s", count, strings.Join(found, "\n"))
	}
}

// problems are the violations of the invariants. The log may hold transactions of
// other senders, and earlier ones of the same.
func problems(log []decision, answers []answer, a allowance) []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	byHash := map[common.Hash][]decision{}
	for _, d := range log {
		byHash[d.Hash] = append(byHash[d.Hash], d)
	}
	senders, sentTo := map[common.Address]bool{}, map[common.Hash][]answer{}
	for _, got := range answers {
		senders[got.tx.sender] = true
		sentTo[got.tx.hash] = append(sentTo[got.tx.hash], got)
	}
	for sender := range senders {
		for _, text := range disorder(log, sender, a) {
			add("%s", text)
		}
	}
	for _, d := range byHash {
		if len(d) > 1 && !a.resent {
			add("reached consensus %d times: %v", len(d), d)
		}
	}
	// The earliest answers last: they are shown, and what follows is often their consequence.
	for _, got := range slices.Backward(answers) {
		for _, text := range unjustified(got, byHash[got.tx.hash], sentTo[got.tx.hash], a) {
			add("%s", text)
		}
	}
	return found
}

// disorder tells what is wrong with the order of one sender's transactions.
func disorder(log []decision, sender common.Address, a allowance) []string {
	var found []string
	next, done := uint64(0), map[common.Hash]bool{}
	for _, d := range log {
		switch {
		case d.Sender != sender:
		case d.Status == wrongNonce && a.resent && done[d.Hash]:
		case d.Status != success:
			found = append(found, fmt.Sprintf("out of turn, nonce %d was next: %v", next, d))
		case d.Nonce != next:
			found = append(found, fmt.Sprintf("nonce %d was next: %v", next, d))
		default:
			next++
			done[d.Hash] = true
		}
	}
	return found
}

// unjustified tells what is wrong with one answer. Others may have been given
// about the same transaction, to the same client or another.
func unjustified(got answer, log []decision, others []answer, a allowance) []string {
	var found []string
	done := slices.ContainsFunc(log, func(d decision) bool { return d.Status == success })
	accepted := slices.ContainsFunc(others, func(o answer) bool { return o.ok() || o.lost != nil || o.refusal.open() })
	slow := a.slow
	if slow == 0 {
		slow = normal
	}
	switch {
	case got.lost != nil:
		if a.lost == nil || !a.lost(got) {
			found = append(found, fmt.Sprintf("not answered: %v", got))
		}
		return found
	case got.refusal != nil && (a.refused == nil || !a.refused(got)):
		found = append(found, fmt.Sprintf("refused: %v", got))
	case got.refusal != nil && len(log) > 0 && !accepted:
		found = append(found, fmt.Sprintf("refused, and yet submitted: %v; %v", got, log))
	case got.ok() && got.hash != got.tx.hash:
		found = append(found, fmt.Sprintf("answered with another hash %s: %v", got.hash.Hex(), got))
	case got.ok() && !done:
		found = append(found, fmt.Sprintf("accepted, and never executed: %v; %v", got, log))
	}
	if got.took > slow {
		found = append(found, fmt.Sprintf("answered too late: %v", got))
	}
	return found
}
