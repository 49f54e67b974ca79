package lock_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/lock"
)

// The lease of a sender who is not ordered restricts nothing, and nothing ends it but its context.
func TestUnordered(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	lease := lock.Unordered(ctx, 7)
	if lease.Context() != ctx {
		t.Error("its context is not the one that it was made with")
	}
	if got, want := lease.Turn(), (lock.Turn{Strategy: "none"}); got != want {
		t.Errorf("turn %+v, want %+v", got, want)
	}
	for _, c := range []struct {
		known lock.Known
		want  lock.Next
	}{
		{lock.Known{}, lock.Next{Gap: 7}},
		{lock.Known{Shown: 7}, lock.Next{Gap: 7}},
		{lock.Known{Proven: 8}, lock.Next{Gap: 7, Standing: lock.Reached}},
		{shows(5), lock.Next{Nonce: 5, Certainty: lock.Shown, Gap: 2}},
		{shows(7), lock.Next{Nonce: 7, Certainty: lock.Shown, Standing: lock.Reached}},
		{lock.Known{Shown: 5, Looked: true, Proven: 8}, lock.Next{Nonce: 8, Certainty: lock.Shown, Gap: -1, Standing: lock.Reached}},
	} {
		if diff := cmp.Diff(c.want, lease.Next(c.known), cmpopts.IgnoreUnexported(lock.Next{})); diff != "" {
			t.Errorf("Next(%+v):\n%s", c.known, diff)
		}
	}
	if lease.Room(1) != nil {
		t.Error("it has to wait for room")
	}
	if lease.PutBack(patience) {
		t.Error("it has been put back into a line in which it never was")
	}
	for _, outcome := range []lock.Outcome{lock.Accepted, lock.Unclear, lock.Failed, lock.Lost, lock.NotAwaited} {
		sent := lease.Report(lock.Report{Outcome: outcome, Submission: lock.Submission{Node: "0.0.3", TxID: "0.0.2@1.1", Open: true}})
		if sent == nil {
			t.Fatalf("no handle for the verdict after outcome %d", outcome)
		}
		if sent.Overtaken() != nil {
			t.Errorf("outcome %d: there is something that can overtake it", outcome)
		}
		sent.Conclude(ctx, lock.Verdict{Reached: true})
	}
	lease.Release()
	lease.Release()
	cancel()
	// Neither the end of the turn nor that of the context takes away the right to send.
	if err := lease.Check(); err != nil {
		t.Errorf("checked: %v", err)
	}
}
