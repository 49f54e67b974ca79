package versions

import (
	"cmp"
	"slices"
	"testing"
)

type reading struct {
	at    int64
	value string
}

func (r reading) Since() int64 { return r.at }

func TestList(t *testing.T) {
	var l List[reading]
	if l.At(100) != nil {
		t.Error("something is in force of nothing")
	}
	for _, r := range []reading{{10, "a"}, {20, "b"}, {30, "x"}, {30, "c"}, {40, "d"}} {
		l.Put(r)
	}
	if len(l) != 4 {
		t.Errorf("%d versions: one of the same time is replaced", len(l))
	}
	for at, want := range map[int64]string{10: "a", 19: "a", 20: "b", 29: "b", 30: "c", 39: "c", 40: "d", 1 << 40: "d"} {
		if got := l.At(at); got == nil || got.value != want {
			t.Errorf("at %d: %v, not %s", at, got, want)
		}
	}
	if l.At(9) != nil {
		t.Error("something is in force before the first version")
	}
	old := l.At(20)
	if l.Prune(29); len(l) != 3 || l.At(29).value != "b" || l.At(15) != nil {
		t.Errorf("pruned: %v", l)
	}
	newest := l.At(40)
	if l.Rewind(30); len(l) != 2 || l.At(100).value != "c" {
		t.Errorf("rewound: %v", l)
	}
	l.Put(reading{50, "e"})
	if old.value != "b" || newest.value != "d" {
		t.Errorf("what was returned has become %v and %v", old, newest)
	}
	if l.Prune(1000); len(l) != 1 || l.At(1000).value != "e" {
		t.Errorf("the last version goes: %v", l)
	}
	if l.Rewind(49); len(l) != 0 {
		t.Errorf("something is left of what began later: %v", l)
	}
}

func TestTable(t *testing.T) {
	table := NewTable[int, string](cmp.Compare[int])
	text := func(s string) *string { return &s }
	table.Put(7, 10, text("seven"))
	table.Put(3, 20, text("three"))
	table.Put(5, 20, text("five"))
	table.Put(3, 30, nil)
	if got := table.At(7, 10); got == nil || *got != "seven" || table.At(7, 9) != nil || table.At(8, 100) != nil {
		t.Errorf("%v", got)
	}
	if row, known := table.Known(3, 30); row != nil || !known {
		t.Errorf("a row that is gone: %v, %v", row, known)
	}
	if row, known := table.Known(3, 19); row != nil || known {
		t.Errorf("a row that is not yet there: %v, %v", row, known)
	}
	if got := table.Between(3, 5); !slices.Equal(got, []int{3, 5}) || !slices.Equal(table.Keys(), []int{3, 5, 7}) || len(table.Between(8, 9)) != 0 || table.Compare(1, 2) >= 0 {
		t.Errorf("%v of %v", got, table.Keys())
	}
	if l := table.Versions(3); len(l) != 2 || l[1].Value != nil || table.Versions(8) != nil {
		t.Errorf("%v", l)
	}

	three, eight := table.Ref(3), table.Ref(8)
	eight.Prune(100) // there is none
	eight.Rewind(0)
	three.Prune(29)
	if row := table.At(3, 29); row == nil {
		t.Error("a version goes that is in force at the horizon")
	}
	table.KeepGone = true
	if three.Prune(30); len(table.Versions(3)) != 1 {
		t.Error("that a row is gone is forgotten although it is to be kept")
	}
	table.KeepGone = false
	if three.Prune(30); !slices.Equal(table.Keys(), []int{5, 7}) || table.Versions(3) != nil {
		t.Errorf("a row that is gone stays: %v", table.Keys())
	}

	table.Put(7, 40, text("more"))
	seven := table.Ref(7)
	if seven.Rewind(39); *table.At(7, 100) != "seven" {
		t.Error("does not go back")
	}
	if seven.Rewind(9); !slices.Equal(table.Keys(), []int{5}) {
		t.Errorf("a row without versions stays: %v", table.Keys())
	}
}
