package txmgr

import "context"

// Faults is called at named points between two steps. It is set by tests of crashes, which
// end the process there; without it nothing happens.
type Faults func(ctx context.Context, point, chain, signer string)

// The points, in the order of one transaction.
const (
	PointAccepted = "accepted" // the intent is stored
	PointReserved = "reserved" // it has a slot
	PointSigned   = "signed"   // bytes exist in this process only
	PointStored   = "stored"   // they are in the ledger
	PointSent     = "sent"     // they have left; the answer is here, not stored
	PointAnswered = "answered" // the answer is stored
	PointMined    = "mined"    // a receipt is here, not stored
	PointRecorded = "recorded" // it is stored; the stream has not got it
	PointStreamed = "streamed" // the sequencer has given the event its cursor
)

// Points are all of them.
var Points = []string{
	PointAccepted, PointReserved, PointSigned, PointStored, PointSent, PointAnswered, PointMined, PointRecorded, PointStreamed,
}

// SetFaults sets what is called at the points. It must be called before Run.
func (m *Manager) SetFaults(f Faults) { m.hurt = f }

func (m *Manager) at(ctx context.Context, point, chain, signer string) {
	if m.hurt != nil {
		m.hurt(ctx, point, chain, signer)
	}
}
