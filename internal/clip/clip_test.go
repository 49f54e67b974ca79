package clip

import (
	"strings"
	"testing"
)

func TestReadAll(t *testing.T) {
	if got, err := ReadAll(strings.NewReader("four"), 4); string(got) != "four" || err != nil {
		t.Errorf("four bytes of four: %q, %v", got, err)
	}
	if got, err := ReadAll(strings.NewReader("fives"), 4); got != nil || err == nil {
		t.Errorf("five bytes of four: %q, %v", got, err)
	}
}

func TestText(t *testing.T) {
	for _, row := range []struct {
		text string
		most int
		want string
	}{{"", 0, ""}, {"four", 4, "four"}, {"four", 3, "fou…"}, {"für", 2, "f…"}, {"für", 3, "fü…"}, {"\xffab", 2, "a…"}} {
		if got := Text(row.text, row.most); got != row.want {
			t.Errorf("%q in %d bytes: %q, want %q", row.text, row.most, got, row.want)
		}
	}
}
