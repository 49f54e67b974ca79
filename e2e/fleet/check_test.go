package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
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
	slow = cmp.Or(slow, normal)
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

// tollBook has what each fault has cost, in the order in which the faults came first.
type tollBook struct{ pages []*tollPage }

type tollPage struct {
	kind, fault string
	times       int
	toll
}

func (b *tollBook) add(kind, fault string, c toll) {
	i := slices.IndexFunc(b.pages, func(p *tollPage) bool { return p.kind == kind && p.fault == fault })
	if i < 0 {
		i = len(b.pages)
		b.pages = append(b.pages, &tollPage{kind: kind, fault: fault})
	}
	p := b.pages[i]
	p.times++
	p.sent, p.executed, p.paid = p.sent+c.sent, p.executed+c.executed, p.paid+c.paid
	p.lost, p.twice, p.disorder = p.lost+c.lost, p.twice+c.twice, p.disorder+c.disorder
	p.unanswered, p.contradicted = p.unanswered+c.unanswered, p.contradicted+c.contradicted
	p.slowest = max(p.slowest, c.slowest)
}

// lines are those of a table of Markdown for each kind of Redis, by kind and fault.
func (b *tollBook) lines() (lines []tollLine) {
	day := time.Now().UTC().Format(time.DateOnly)
	for _, p := range b.pages {
		lines = append(lines, tollLine{p.kind, p.fault, fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %.1f s | %s |", p.fault, p.times, p.sent, p.executed,
			p.lost, p.twice, p.disorder, p.unanswered, p.contradicted, p.paid, p.slowest.Seconds(), day)})
	}
	return lines
}

type tollLine struct{ kind, fault, text string }

const (
	tollKind = "Redis: "
	tollHead = "| Fault | times | sent | executed | lost | twice | wrong order | unanswered | contradicted | paid | slowest | measured |"
)

// table writes a table for each kind of Redis.
func table(lines []tollLine) string {
	var out strings.Builder
	var kinds []string
	for _, l := range lines {
		if !slices.Contains(kinds, l.kind) {
			kinds = append(kinds, l.kind)
		}
	}
	for _, kind := range kinds {
		fmt.Fprintf(&out, "\n%s%s\n\n%s\n%s|\n", tollKind, kind, tollHead, strings.Repeat("|---", strings.Count(tollHead, "|")-1))
		for _, l := range lines {
			if l.kind == kind {
				out.WriteString(l.text + "\n")
			}
		}
	}
	return out.String()
}

// readTable reads what table wrote.
func readTable(text string) (lines []tollLine) {
	kind := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, tollKind); ok {
			kind = rest
		}
		fault, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if strings.HasPrefix(line, "| ") && line != tollHead {
			lines = append(lines, tollLine{kind, fault, line})
		}
	}
	return lines
}

// Lines of a document between which the table goes.
const (
	tableBegins = "<!-- make chaos writes from here -->\n"
	tableEnds   = "<!-- to here -->\n"
)

// write puts the lines into a document, each in place of the former one about its fault.
func (b *tollBook) write(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), tableBegins)
	former, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the table", path)
	}
	lines := readTable(former)
	for _, l := range b.lines() {
		i := slices.IndexFunc(lines, func(old tollLine) bool { return old.kind == l.kind && old.fault == l.fault })
		if i < 0 {
			i, lines = len(lines), append(lines, l)
		}
		lines[i] = l
	}
	measured := fmt.Sprintf("Measured on %s/%s with %d processors.\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	return os.WriteFile(path, []byte(before+tableBegins+measured+table(lines)+tableEnds+after), 0o600) //nolint:gosec // the caller's own file
}

// TestJudge shows the judge of faults each thing that must not be.
func TestJudge(t *testing.T) {
	alice := common.HexToAddress("0xa1")
	tx := func(nonce byte) *transaction {
		return &transaction{sender: alice, nonce: uint64(nonce), hash: common.Hash{1, nonce}}
	}
	fine := func(nonce byte) answer { return answer{tx: tx(nonce), relay: "A", hash: tx(nonce).hash} }
	no := func(nonce byte, text string) answer {
		return answer{tx: tx(nonce), relay: "A", refusal: &refusal{Message: text}}
	}
	silent := func(nonce byte, relay string) answer {
		return answer{tx: tx(nonce), relay: relay, lost: errors.New("reset")}
	}
	open := answer{tx: tx(0), relay: "A", refusal: &refusal{Data: []byte(`{"provisional":true}`)}}
	ran := func(nonce byte) decision {
		return decision{Sender: alice, Nonce: uint64(nonce), Hash: tx(nonce).hash, Status: success}
	}
	refused := func(nonce byte) decision { d := ran(nonce); d.Status = wrongNonce; return d }
	for name, tc := range map[string]struct {
		log     []decision
		answers []answer
		want    toll
	}{
		"all is well":            {[]decision{ran(0), ran(1)}, []answer{fine(0), fine(1)}, toll{sent: 2, requests: 2, executed: 2}},
		"sent again, paid for":   {[]decision{ran(0), refused(0)}, []answer{silent(0, "killed"), no(0, tooLow)}, toll{sent: 1, requests: 2, executed: 1, refused: 1, paid: 1}},
		"open, then executed":    {[]decision{ran(0)}, []answer{open, no(0, tooLow)}, toll{sent: 1, requests: 2, executed: 1, open: 1, refused: 1}},
		"refused, then executed": {[]decision{ran(0)}, []answer{no(0, "busy"), fine(0)}, toll{sent: 1, requests: 2, executed: 1, refused: 1}},
		"lost":                   {nil, []answer{no(0, "busy")}, toll{sent: 1, requests: 1, lost: 1, refused: 1}},
		"twice":                  {[]decision{ran(0), ran(0)}, []answer{fine(0)}, toll{sent: 1, requests: 1, executed: 1, twice: 1}},
		"wrong order":            {[]decision{refused(1), ran(0), ran(1)}, []answer{fine(0), fine(1)}, toll{sent: 2, requests: 2, executed: 2, disorder: 1}},
		"executed out of order":  {[]decision{ran(1)}, []answer{fine(1)}, toll{sent: 1, requests: 1, disorder: 1}},
		"refused otherwise":      {[]decision{{Sender: alice, Hash: tx(0).hash, Status: "BUSY"}, ran(0)}, []answer{fine(0)}, toll{sent: 1, requests: 1, executed: 1, disorder: 1}},
		"no answer":              {[]decision{ran(0)}, []answer{silent(0, "A")}, toll{sent: 1, requests: 1, executed: 1, unanswered: 1}},
		"a hash for nothing":     {nil, []answer{fine(0)}, toll{sent: 1, requests: 1, lost: 1, contradicted: 1}},
		"another hash":           {[]decision{ran(0)}, []answer{{tx: tx(0), relay: "A", hash: tx(1).hash}}, toll{sent: 1, requests: 1, executed: 1, contradicted: 1}},
		"said to have failed":    {[]decision{ran(0)}, []answer{no(0, "not submitted")}, toll{sent: 1, requests: 1, executed: 1, contradicted: 1}},
		"too low for nothing":    {nil, []answer{no(0, tooLow)}, toll{sent: 1, requests: 1, lost: 1, contradicted: 1}},
		"too low at first":       {[]decision{ran(0)}, []answer{no(0, tooLow)}, toll{sent: 1, requests: 1, executed: 1, contradicted: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(tc.log, tc.answers, map[string]bool{"killed": true}, map[string]uint64{alice.Hex(): 0}, nil)
			if bad := tc.want.faultless(); bad != got.faultless() {
				t.Errorf("faultless: %t", got.faultless())
			}
			got.problems = nil
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

// With a short window, only what could not know of the next one may go ahead of it.
func TestWhatMayGoAhead(t *testing.T) {
	n := &network{t: t}
	at := func(ms int) time.Time { return time.Unix(1_000_000, 0).Add(time.Duration(ms) * time.Millisecond) }
	tx := func(nonce byte) *transaction { return &transaction{nonce: uint64(nonce), hash: common.Hash{nonce}} }
	held := func(nonce byte, relay string, from, to int) answer {
		return answer{tx: tx(nonce), relay: relay, sent: at(from), took: at(to).Sub(at(from))}
	}
	refused := func(nonce byte, ms int) decision {
		when := at(ms)
		return decision{Nonce: uint64(nonce), Hash: tx(nonce).hash, Status: wrongNonce, Time: fmt.Sprintf("%d.%09d", when.Unix(), when.Nanosecond())}
	}
	ahead := held(6, "A", 0, 1900)
	for name, tc := range map[string]struct {
		answers []answer
		earlier []decision
		apart   string
		came    bool
	}{
		"it is nowhere":               {[]answer{ahead}, nil, "", false},
		"it came here in time":        {[]answer{ahead, held(5, "A", 100, 2000)}, nil, "", true},
		"it came elsewhere in time":   {[]answer{ahead, held(5, "B", 100, 2000)}, nil, "", true},
		"it came where nobody sees":   {[]answer{ahead, held(5, "B", 100, 2000)}, nil, "B", false},
		"nobody is seen from here":    {[]answer{ahead, held(5, "B", 100, 2000)}, nil, "A", false},
		"it came too late":            {[]answer{ahead, held(5, "A", 500, 2000)}, nil, "", false},
		"it came and was turned away": {[]answer{ahead, held(5, "A", 0, 500)}, nil, "", false},
		"it had gone ahead itself":    {[]answer{ahead, held(5, "A", 100, 2000)}, []decision{refused(5, 1750)}, "", false},
		"its verdict was known":       {[]answer{ahead, held(5, "A", 100, 2000)}, []decision{refused(5, 1500)}, "", true},
		"no window was waited for":    {[]answer{held(6, "A", 1700, 1900)}, nil, "", true},
	} {
		s := &storm{net: n, apart: map[string]bool{tc.apart: true}}
		d := refused(6, 1800)
		if got := s.came(append(tc.earlier, d), tc.answers, d, 5); got != tc.came {
			t.Errorf("%s: had come: %t", name, got)
		}
	}
}
