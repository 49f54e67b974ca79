package access

import (
	"slices"
	"testing"
)

// However much tenants take, the next one finds a place; what is given back is there again, and nothing of a tenant stays.
func TestPlacesAreShared(t *testing.T) {
	p := NewPlaces(12)
	var back []func()
	takeAll := func(tenant string) (n int) {
		for give := p.Take(tenant); give != nil; give = p.Take(tenant) {
			back = append(back, give)
			n++
		}
		return n
	}
	got := []int{takeAll("a"), takeAll("b"), takeAll("c"), takeAll("d")}
	if want := []int{6, 3, 2, 1}; !slices.Equal(got, want) {
		t.Fatalf("tenants got %v, want %v", got, want)
	}
	for _, give := range back {
		give()
	}
	if p.free != 12 || len(p.held) != 0 {
		t.Fatalf("%d free, %v held", p.free, p.held)
	}
	if one := NewPlaces(1); one.Take("a") == nil || one.Take("a") != nil {
		t.Fatal("one place is not one place")
	}
}
