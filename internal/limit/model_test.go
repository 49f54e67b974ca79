package limit

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/internal/redistest"
)

// model is what a ledger is, without any cleverness.
type model struct {
	windows map[int64]map[string]int64
	claims  map[string]grant
	most    int
}

func (m *model) books(w window) map[string]int64 {
	if m.windows[w.start] == nil {
		m.windows[w.start] = map[string]int64{}
	}
	return m.windows[w.start]
}

func (m *model) reserve(c claim) answer {
	books := m.books(c.window)
	kept := 0
	for _, spent := range books {
		if spent > 0 {
			kept++
		}
	}
	a := answer{refused: granted}
	for i, b := range c.books {
		name := b.name
		if b.common != "" && books[name] == 0 && kept >= m.most {
			name = b.common
		}
		a.sums = append(a.sums, sum{name, books[name]})
		if a.refused == granted && (books[name] >= b.limit || books[name]+c.amount > b.limit) {
			a.refused = i
		}
	}
	if a.refused == granted {
		for i := range a.sums {
			books[a.sums[i].book] += c.amount
			a.sums[i].spent = books[a.sums[i].book]
		}
		m.claims[c.id] = grant{c.id, c.window, c.amount, a.sums.books()}
	}
	return a
}

func (m *model) settle(g grant, actual int64) (changed sums) {
	g, ok := m.claims[g.id]
	if !ok {
		return nil
	}
	delete(m.claims, g.id)
	for _, name := range g.books {
		m.books(g.window)[name] += actual - g.amount
		changed = append(changed, sum{name, m.books(g.window)[name]})
	}
	return changed
}

// Whatever is reserved and settled, in whatever order, the ledgers answer as the model
// does, and so they agree with each other.
func TestLedgersFollowTheModel(t *testing.T) {
	client := connect(t, redistest.Start(t).URL())
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		const most = 4
		m := &model{windows: map[int64]map[string]int64{}, claims: map[string]grant{}, most: most}
		ledgers := []ledger{newLocal(time.Hour, most), newRemote(client, fmt.Sprint(runs), time.Hour, most, patience)}
		w := today()
		var grants []grant
		amounts := rapid.Int64Range(0, 30)
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				c := claim{id: fmt.Sprint("c", len(grants)), window: w, amount: amounts.Draw(t, "amount")}
				c.books = append(c.books, fixed("total", 100))
				if rapid.Bool().Draw(t, "planned") {
					c.books = append(c.books, fixed("plan:p", 40))
				} else {
					c.books = append(c.books,
						book{"address:" + rapid.StringMatching(`[a-d]`).Draw(t, "sender"), 30, "address:others"},
						book{"ip:" + rapid.StringMatching(`[a-c]`).Draw(t, "ip"), 50, "ip:others"})
				}
				want := m.reserve(c)
				for _, l := range ledgers {
					got, err := l.reserve(t.Context(), c)
					if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{}, sum{})); err != nil || diff != "" {
						t.Fatalf("%T: %v (-want +got)\n%s", l, err, diff)
					}
				}
				grants = append(grants, grant{c.id, w, c.amount, want.sums.books()})
			},
			"settle": func(t *rapid.T) {
				if len(grants) == 0 {
					t.Skip()
				}
				g := grants[rapid.IntRange(0, len(grants)-1).Draw(t, "claim")] // perhaps refused, or settled before
				actual := amounts.Draw(t, "actual")
				if g.window != w {
					return // what becomes of it changes nothing any more
				}
				want := m.settle(g, actual)
				for _, l := range ledgers {
					got, err := l.settle(t.Context(), g, actual)
					if diff := cmp.Diff(want, got, cmp.AllowUnexported(sum{})); err != nil || diff != "" {
						t.Fatalf("%T: %v (-want +got)\n%s", l, err, diff)
					}
				}
			},
			"window": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "chance") == 0 {
					w = after(w)
				}
			},
		})
	})
}
