package plainhttp

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain also checks that no connection leaves a goroutine behind. Those of net/http
// stay for half a second when they have refused something.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
