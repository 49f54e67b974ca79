package txmgr

import "time"

// LeaveIdleAfter changes how long an account without anything on its way keeps its owner. It is for managers that do not run yet.
func (m *Manager) LeaveIdleAfter(d time.Duration) { m.idleAfter = d }

// Wake has the owners of a chain look at once.
func (m *Manager) Wake(chain string) { m.wakeHere(chain) }
