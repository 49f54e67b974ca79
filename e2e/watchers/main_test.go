package watchers

import (
	"os"
	"path/filepath"
	"testing"

	"lockstep/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, filepath.Join("..", ".."))) }
