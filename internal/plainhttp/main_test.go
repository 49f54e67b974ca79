package plainhttp

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain also checks that no connection leaves a goroutine behind, once all have had the time to
// end. Those of net/http stay for half a second when they have refused something.
func TestMain(m *testing.M) {
	code := m.Run()
	for end := time.Now().Add(patienceOfTests); code == 0; {
		err := goleak.Find()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
