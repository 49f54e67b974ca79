package app

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"lockstep/internal/must"
)

// mapped returns the kilobytes of files that are in this process's memory.
func mapped(t *testing.T) int {
	t.Helper()
	text := must.Get(os.ReadFile("/proc/self/status"))(t)
	return must.Get(strconv.Atoi(string(regexp.MustCompile(`RssFile:\s+(\d+)`).FindSubmatch(text)[1])))(t)
}

// What only the start needed goes; what the program goes on with comes back.
func TestTheProgramsPagesGo(t *testing.T) {
	before := mapped(t)
	must.Do(t, forgetProgram())
	if after := mapped(t); after >= before {
		t.Errorf("%d kB of files are in memory after %d", after, before)
	}
	if start, end := addresses("00400000-zz"); start != 0 || end != 0 {
		t.Errorf("addresses %x to %x of a line that is none", start, end)
	}
}
