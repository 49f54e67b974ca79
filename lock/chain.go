package lock

// Submission names a transaction that a consensus node has, or may have. While its verdict is open, the sender's
// transactions go to that node only.
type Submission struct {
	Node string // consensus node it went to, such as "0.0.3"
	TxID string // Hedera transaction id
	Open bool   // its receipt is not known yet, as far as this process can tell
}

// mode says how a lane goes on. The package comment has the table of transitions.
type mode uint8

const (
	flowing    mode = iota // each transaction goes when a node has accepted the one before
	recovering             // a transaction is missing: only what is proven to be next goes
)

// chain is what a lane knows about its sender's chain of transactions.
type chain struct {
	mode     mode
	expected uint64 // nonce of the next transaction, if known
	known    bool
	sure     bool // the lane's own transactions lead to it, not the mirror node alone
	// base is the fence of the first turn that relied on this chain of expected
	// nonces; 0 until there is one. A verdict about an older turn says nothing
	// about it.
	base      uint64
	proven    uint64 // the highest nonce that verdicts proved to be next; 0 = none
	last      Submission
	lastFence uint64 // the turn that made last; 0 = no submission is known
}

// observe learns a nonce from outside the lane. It never lowers the nonce, because the source lags.
func (k *chain) observe(nonce uint64) bool {
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

// recover makes the lane recover. What the lane concluded does not count any more. What verdicts proved stays,
// because the mirror node may be behind it.
func (k *chain) recover() {
	k.mode = recovering
	k.expected, k.known, k.sure, k.base = k.proven, k.proven > 0, false, 0
}

// prove learns a nonce from a verdict of the network.
func (k *chain) prove(nonce uint64) { k.proven = max(k.proven, nonce) }

// begin binds the knowledge to the first turn that relies on it.
func (k *chain) begin(fence uint64) {
	if k.known && k.base == 0 {
		k.base = fence
	}
}

// advance follows an accepted transaction of the turn with the given fence.
func (k *chain) advance(next, fence uint64, sub Submission) {
	k.expected, k.known, k.sure = next, true, true
	k.begin(fence)
	k.last, k.lastFence = sub, fence
}

// invalidate applies a bad verdict on the submission of the turn with this fence. It counts if that turn
// contributed to what is expected.
func (k *chain) invalidate(fence uint64) bool {
	if !k.known || k.base == 0 || fence < k.base {
		return false
	}
	k.recover()
	return true
}
