package watchers

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/e2e/harness"
)

// patience bounds every wait of these tests; nothing is asserted about how long a wait takes.
const patience = 5 * time.Minute

func TestMain(m *testing.M) { os.Exit(harness.Main(m, filepath.Join("..", ".."))) }
