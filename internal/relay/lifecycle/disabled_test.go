package lifecycle_test

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/relay/lifecycle"
)

// TestDisabled: a service that is off takes everything and keeps nothing.
func TestDisabled(t *testing.T) {
	s := lifecycle.Disabled()
	hash := common.Hash{1}
	s.Record(hash, step(lifecycle.Received))
	s.Validated(hash)
	if _, found := s.Get(t.Context(), hash); found || s.Enabled() || len(s.Collectors()) > 0 {
		t.Errorf("found %v, enabled %v, %d collectors", found, s.Enabled(), len(s.Collectors()))
	}
	if err := s.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
