package rpc

import (
	"os"
	"os/exec"
	"testing"
)

// aboutPlain are the tests that mean nothing without the loop for plain requests: one compares it with net/http, and one says that
// it is on by default.
const aboutPlain = "^(TestNetHTTPAlone|TestPlainIsTheSame|TestConfigDefaults)$"

// TestNetHTTPAlone runs all tests once more but those, with every request left to net/http.
func TestNetHTTPAlone(t *testing.T) {
	if netHTTPAlone {
		return // this is that run
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	again := exec.CommandContext(t.Context(), program, "-test.skip", aboutPlain, "-test.timeout", "20m")
	again.Env = append(os.Environ(), "LOCKSTEP_TEST_NET_HTTP=1")
	if said, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
