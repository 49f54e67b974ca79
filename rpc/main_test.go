package rpc

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain also checks that no server leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
