package watchers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/e2e/harness"
)

// patience bounds every wait of these tests; nothing is asserted about how long a wait takes.
const patience = 5 * time.Minute

// freePort returns a port that nobody has. It is below those that the kernel gives to connections, so that it is still free when a process
// that was killed starts again.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 12_000 + rand.IntN(18_000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func TestMain(m *testing.M) { os.Exit(harness.Main(m, filepath.Join("..", ".."))) }
