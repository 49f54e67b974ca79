package consensus

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a test leaves a goroutine behind: Close and Run end all they began.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
