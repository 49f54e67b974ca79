package lock

// Submission names a transaction that a consensus node accepted, for the rule that a
// sender's transactions go to one node while a verdict is open.
type Submission struct {
	Node string // consensus node it went to, such as "0.0.3"
	TxID string // Hedera transaction id
	Open bool   // its receipt is not known yet, as far as this process can tell
}

// knowledge is what a lane knows about its sender's chain of transactions.
type knowledge struct {
	expected uint64 // nonce of the next transaction, if known
	known    bool
	sure     bool // it is the lane's own work, not only what the mirror node shows
	// base is the fence of the first turn that relied on this chain of expected
	// nonces; 0 until there is one. A verdict about an older turn says nothing
	// about it.
	base      uint64
	proven    uint64 // the highest nonce that verdicts proved to be next; 0 = none
	last      Submission
	lastFence uint64 // the turn that made last; 0 = no submission is known
}

// observe learns a nonce from outside the lane. It only ever raises: the source lags.
func (k *knowledge) observe(nonce uint64) bool {
	if !k.known {
		k.expected, k.known, k.sure, k.base = nonce, true, false, 0
		return true
	}
	if nonce <= k.expected {
		return false
	}
	// Somebody else submits for this sender: the lane's own chain ends here.
	k.expected, k.sure, k.base = nonce, false, 0
	return true
}

// forget drops what the lane concluded. What verdicts proved stays: the mirror node may be
// behind it.
func (k *knowledge) forget() { k.expected, k.known, k.sure, k.base = k.proven, k.proven > 0, false, 0 }

// prove learns a nonce from a verdict of the network.
func (k *knowledge) prove(nonce uint64) { k.proven = max(k.proven, nonce) }

// begin binds the knowledge to the first turn that relies on it.
func (k *knowledge) begin(fence uint64) {
	if k.known && k.base == 0 {
		k.base = fence
	}
}

// advance follows an accepted transaction of the turn with the given fence.
func (k *knowledge) advance(next, fence uint64, sub Submission) {
	k.expected, k.known, k.sure = next, true, true
	k.begin(fence)
	k.last, k.lastFence = sub, fence
}

// invalidate forgets the expected nonce if the turn with this fence contributed to it.
func (k *knowledge) invalidate(fence uint64) bool {
	if !k.known || k.base == 0 || fence < k.base {
		return false
	}
	k.forget()
	return true
}
