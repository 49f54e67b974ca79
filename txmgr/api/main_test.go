package api_test

import (
	"log/slog"
	"os"
	"testing"

	"lockstep/internal/redisx"
)

func TestMain(m *testing.M) {
	redisx.LogTo(slog.New(slog.DiscardHandler)) // a server that does not answer is what is tested here
	os.Exit(m.Run())
}
