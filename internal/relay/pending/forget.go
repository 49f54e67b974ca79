package pending

import "time"

// Forget drops what this process knows of transactions that are over, and what they proved: a
// development network can go back to before them. What is on its way stays.
func (p *Pool) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table.forgetOver(time.Now())
}

func (t *table) forgetOver(now time.Time) {
	for at := t.ended.Front(); at != nil; at = t.ended.Front() {
		t.ended.Remove(at)
		t.drop(at.Value.(*entry))
	}
	for at := t.proofs.Front(); at != nil; at = t.proofs.Front() {
		t.forget(at.Value.(*sender), now)
	}
}
