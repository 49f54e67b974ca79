package versions

import (
	"cmp"
	"slices"
	"testing"
)

func text(s string) *string { return &s }

func TestVersionsOfARow(t *testing.T) {
	table := NewTable[int, string](cmp.Compare[int])
	at := func(ns int64) string {
		if row := table.At(1, ns); row != nil {
			return *row.Value
		}
		return ""
	}
	for _, v := range []Row[string]{{10, text("a")}, {20, text("b")}, {30, text("x")}, {30, text("c")}, {40, text("d")}} {
		table.Put(1, v.At, v.Value)
	}
	if n := len(table.Versions(1)); n != 4 {
		t.Errorf("%d versions: one of the same time is replaced", n)
	}
	for ns, want := range map[int64]string{9: "", 10: "a", 19: "a", 20: "b", 29: "b", 30: "c", 39: "c", 40: "d", 1 << 40: "d"} {
		if got := at(ns); got != want {
			t.Errorf("at %d: %s, not %s", ns, got, want)
		}
	}
	old, newest, row := table.At(1, 20), table.At(1, 40), table.Ref(1)
	if row.Prune(29); len(table.Versions(1)) != 3 || at(29) != "b" || at(15) != "" {
		t.Errorf("pruned: %v", table.Versions(1))
	}
	if row.Rewind(30); len(table.Versions(1)) != 2 || at(100) != "c" {
		t.Errorf("rewound: %v", table.Versions(1))
	}
	table.Put(1, 50, text("e"))
	if *old.Value != "b" || *newest.Value != "d" {
		t.Errorf("what was returned has become %v and %v", old, newest)
	}
	if row.Prune(1000); len(table.Versions(1)) != 1 || at(1000) != "e" {
		t.Errorf("the last version goes: %v", table.Versions(1))
	}
	if row.Rewind(49); len(slices.Collect(table.Keys())) != 0 {
		t.Error("something is left of what began later")
	}
}

func TestTable(t *testing.T) {
	table := NewTable[int, string](cmp.Compare[int])
	keys := func() []int { return slices.Collect(table.Keys()) }
	table.Put(7, 10, text("seven"))
	table.Put(3, 20, text("three"))
	table.Put(5, 20, text("five"))
	table.Put(3, 30, nil)
	if row := table.At(3, 30); row == nil || row.Value != nil {
		t.Errorf("a row that is gone: %v", row)
	}
	if row := table.At(3, 19); row != nil {
		t.Errorf("a row that is not yet there: %v", row)
	}
	if got := slices.Collect(table.Between(3, 5)); !slices.Equal(got, []int{3, 5}) || !slices.Equal(keys(), []int{3, 5, 7}) || table.Compare(1, 2) >= 0 {
		t.Errorf("%v of %v", got, keys())
	}
	for key := range table.Between(3, 7) {
		if key != 3 {
			t.Errorf("%d after the end", key)
		}
		break
	}
	three, eight := table.Ref(3), table.Ref(8)
	eight.Prune(100) // there is none
	eight.Rewind(0)
	table.KeepGone = true
	if three.Prune(30); len(table.Versions(3)) != 1 {
		t.Error("that a row is gone is forgotten although it is to be kept")
	}
	table.KeepGone = false
	if three.Prune(30); !slices.Equal(keys(), []int{5, 7}) || table.Versions(3) != nil {
		t.Errorf("a row that is gone stays: %v", keys())
	}
}
