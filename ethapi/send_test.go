package ethapi

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
	"lockstep/submit"
)

// A client gets the hash or an error, never both, whatever the result also knows.
func TestHashOrError(t *testing.T) {
	hash := common.Hash{1}
	for _, outcome := range []submit.Outcome{submit.Unknown, submit.Reverted, submit.Executed} {
		if got, err := hashOrError(submit.Result{Outcome: outcome, Hash: hash}); got != hash || err != nil {
			t.Errorf("%s: %s, %v", outcome, got, err)
		}
	}
	refusal := eth.ErrNoNode
	if got, err := hashOrError(submit.Result{Outcome: submit.NotSent, Hash: hash, Err: refusal}); got != (common.Hash{}) || err != refusal { //nolint:errorlint // the very same
		t.Errorf("%s, %v", got, err)
	}
}
