package app

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// mapped returns the kilobytes of files that are in this process's memory.
func mapped(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(regexp.MustCompile(`RssFile:\s+(\d+)`).FindSubmatch(text)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What only the start needed goes; what the program goes on with comes back.
func TestTheProgramsPagesGo(t *testing.T) {
	before := mapped(t)
	if err := forgetProgram(); err != nil {
		t.Fatal(err)
	}
	if after := mapped(t); after >= before {
		t.Errorf("%d kB of files are in memory after %d", after, before)
	}
	if start, end := addresses("00400000-zz"); start != 0 || end != 0 {
		t.Errorf("addresses %x to %x of a line that is none", start, end)
	}
}
