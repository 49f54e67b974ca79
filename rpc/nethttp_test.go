package rpc

import (
	"os"
	"os/exec"
	"testing"
)

// TestNetHTTPAlone runs the tests of the servers once more, with every request left to net/http.
func TestNetHTTPAlone(t *testing.T) {
	if netHTTPAlone {
		return // this is that run
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	again := exec.CommandContext(t.Context(), program, "-test.run", "HTTP|Batch|Connections|Bodies|Client|Drain|Limit|Request", "-test.skip", "TestNetHTTPAlone|TestConfig", "-test.timeout", "20m")
	again.Env = append(os.Environ(), "LOCKSTEP_TEST_NET_HTTP=1")
	if said, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
