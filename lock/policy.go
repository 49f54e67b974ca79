package lock

import "time"

// The nonce policy: which nonce is next, how sure that is, and what the holder of a turn is to do. Nothing here knows a queue, a clock or
// Redis. A lane asks decide, and tells its chain what has happened; the tables are at mode and decide.

// Submission names a transaction that a consensus node has, or may have. While its verdict is open, the sender's
// transactions go to that node only.
type Submission struct {
	Node string // consensus node it went to, such as "0.0.3"
	TxID string // Hedera transaction id
	Open bool   // its receipt is not known yet, as far as this process can tell
}

// Certainty says how sure the next nonce is.
type Certainty uint8

// The certainties, from the lowest to the highest.
const (
	Unknown Certainty = iota // nobody has said anything
	Shown                    // the mirror node or a verdict shows it; the true one may be higher by now
	Chained                  // the lane's own accepted transactions lead to it, or a lower nonce has failed
	Proven                   // the lane recovers, and verdicts have proved it
)

// Step is what the holder of a turn is to do.
type Step uint8

// The steps.
const (
	// Go: nothing speaks against sending the transaction, unless its nonce is too low.
	Go Step = iota
	// Look: what is known is too old to hold the transaction back, or to take it for ahead. Look again, then ask again.
	Look
	// Await: first wait for the verdict on Next.Predecessor, then ask again.
	Await
	// GiveWay: do not send it now, but call PutBack. The ticket with the next nonce waits here.
	GiveWay
	// Early: do not send it now, but call PutBack. Its turn came before the end of its window.
	Early
	// PutBack: do not send it now, but call PutBack. A lower nonce is missing, and may come.
	PutBack
	// Refuse: its nonce is too high and cannot become right any more, unless Next.Cause says another reason.
	Refuse
)

// Waits tells whether the holder is to call PutBack and wait for another turn.
func (s Step) Waits() bool { return s == PutBack || s.Stays() }

// Stays tells whether it waits for no longer than its window, so that it need not be kept.
func (s Step) Stays() bool { return s == GiveWay || s == Early }

// Known is what a holder knows of the sender's next nonce from outside the lane.
type Known struct {
	Shown  uint64 // what the mirror node shows
	Looked bool   // it was asked; false: Shown means nothing
	Fresh  bool   // it was asked a moment ago
	Proven uint64 // what receipts have proved, which stays true; 0: nothing
	Fleet  bool   // Proven has what other processes know, too
}

// next is the higher of what is shown and what is proven.
func (k Known) next() uint64 {
	if !k.Looked {
		return 0
	}
	return max(k.Shown, k.Proven)
}

// Standing is how sure it is that the network takes the holder's nonce.
type Standing uint8

// The standings.
const (
	Uncertain Standing = iota // it may be too high
	InLine                    // it is next: the lane led to it
	Reached                   // the sender's nonce has certainly come to it; if the network refuses it, it is spent
)

// Next is what a lane knows about the sender's next transaction.
type Next struct {
	Nonce       uint64
	Certainty   Certainty
	Step        Step
	Gap         int64           // the holder's nonce less Nonce: above 0 it is ahead, below 0 it is too low
	Standing    Standing        // of the holder's nonce
	Predecessor Submission      // the one handed over last, or the one to await; Open if its verdict is not known
	Cause       error           // with Refuse: why what it follows was not sent; nil: its nonce is too high
	Recovering  bool            // the lane recovers
	Within      time.Duration   // with PutBack: how long it is to wait as a maximum; 0: as long as its client does
	Decided     <-chan struct{} // with Await, if this process handed the predecessor over: closed at its verdict

	why    waitFor // with the steps that wait
	first  uint64  // with GiveWay: the nonce that goes first
	isNext bool    // the holder is next, and the chain goes on with it once a node accepts it
	ahead  bool    // it is known to be ahead
}

// Sure tells whether the holder is next: the lane's own transactions or, while it recovers, verdicts lead to its nonce.
func (n Next) Sure() bool { return n.Gap == 0 && n.Certainty >= Chained }

// waitFor is what a transaction waits for.
type waitFor uint8

const (
	forPredecessor waitFor = iota // what it follows, for as long as its holder says
	forNext                       // the ticket with the next nonce, which is here
	forWindow                     // the end of its window
	forLate                       // what may come late, once
	forVerdict                    // the verdict on another one
)

// mode says how a lane goes on.
//
//	          a hole: WRONG_NONCE or another verdict that it was not executed, an unclear submission,
//	          a lost turn, a dead process, Redis back with what it may have missed,
//	          a shared lane that goes on without Redis
//	flowing ────────────────────────────────────────────────────────────────────────▶ recovering
//	        ◀────────────────────────────────────────────────────────────────────────
//	          a node accepts what is proven next, and no submission of this process is open
//
// The mode passes with the turn, through Redis too.
type mode uint8

const (
	flowing    mode = iota // each transaction goes when a node has accepted the one before
	recovering             // a transaction is missing: only what is proven to be next goes
)

// missing is what a lane that flows has found out about a nonce that it expects and nobody has sent.
type missing uint8

const (
	notTried missing = iota // no transaction has gone ahead of it
	tried                   // one has, and the network judges it
	certain                 // the network has refused that one: its nonce was too high
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
	gap       missing // whether expected is missing; only while the lane flows and is not sure
	proven    uint64  // the highest nonce that verdicts proved to be next; 0 = none
	last      Submission
	lastFence uint64 // the turn that made last; 0 = no submission is known
}

// expect sets what is next.
func (k *chain) expect(nonce uint64, known, sure bool, base uint64) {
	k.expected, k.known, k.sure, k.base, k.gap = nonce, known, sure, base, notTried
}

// observe learns a nonce from outside the lane. It never lowers the nonce, because the source lags.
func (k *chain) observe(nonce uint64) bool {
	if k.known && nonce <= k.expected {
		return false
	}
	k.expect(nonce, true, false, 0) // somebody else submits for this sender: the lane's own chain ends here
	return true
}

// recover makes the lane recover. What the lane concluded does not count any more. What verdicts proved stays,
// because the mirror node may be behind it.
func (k *chain) recover() {
	k.mode = recovering
	k.expect(k.proven, k.proven > 0, false, 0)
}

// prove learns a nonce from a verdict of the network.
func (k *chain) prove(nonce uint64) { k.proven = max(k.proven, nonce) }

// begin binds the knowledge to the first turn that relies on it.
func (k *chain) begin(fence uint64) {
	if k.known && k.base == 0 {
		k.base = fence
	}
}

// accepted follows a transaction that a node accepted in the turn with the given fence. It tells whether the chain
// goes on with it. The chain may have changed since the holder asked: a verdict may have shown that it leads nowhere,
// or the mirror node may have shown that others are further.
func (k *chain) accepted(nonce, fence uint64, sub Submission, n Next) (on bool) {
	k.last, k.lastFence = sub, fence
	switch on = n.isNext && k.known && k.expected == nonce; {
	case on:
		base := k.base
		if base == 0 {
			base = fence
		}
		k.expect(nonce+1, true, true, base)
	case n.ahead && k.open(nonce):
		k.gap = max(k.gap, tried)
	}
	return on
}

// open tells whether a nonce is ahead of one that may be missing.
func (k *chain) open(nonce uint64) bool {
	return k.mode == flowing && k.known && !k.sure && nonce > k.expected
}

// tooHigh applies the verdict that a transaction which went ahead of the next nonce had a nonce that was too high. It tells whether that
// proves that the next one is missing.
func (k *chain) tooHigh(nonce, next uint64) bool {
	if !k.open(nonce) || k.expected != next {
		return false
	}
	k.gap = certain
	return true
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

// inherit joins what Redis says of the sender's nonces with what the lane knew.
func (k *chain) inherit(was chain) {
	if k.prove(was.proven); k.proven > 0 {
		k.observe(k.proven)
	}
	if k.lastFence != 0 && k.lastFence == was.lastFence {
		k.last.Open = was.last.Open // the verdict may have come, which only this process knows
	}
	if was.known && was.expected == k.expected && k.open(k.expected+1) {
		k.gap = max(k.gap, was.gap)
	}
}

// facts are what the policy has to know besides the chain.
type facts struct {
	known Known
	nonce uint64 // of the transaction whose holder asks
	open  bool   // Redis should have decided, but did not answer: another process may have gone on

	inWindow     bool   // its window is not over
	follows      bool   // others were in the lane when it entered, or it let one go first
	followed     bool   // … or others had turns since
	outlastsGap  bool   // a gap is no reason to refuse it
	late         bool   // it has waited for what comes late
	failed       bool   // a lower nonce failed after it had come, and no node has accepted anything since
	failedAt     uint64 // … that one
	holeReported bool   // this process sent the missing transaction, and has told its client
	awaited      bool   // a submission of this process awaits its verdict
	recovered    bool   // the lane recovered a short time ago

	recovery  bool          // the settings have it
	waitsLate time.Duration // how long what may come late is waited for
	gapFor    time.Duration // how long the lane has known what chain.gap says
	memory    time.Duration // for how long that counts

	waits func(next uint64) bool        // the ticket with the next nonce waits here, and is to go first
	judge func(next uint64) bool        // a submission of this process that went ahead of the next nonce awaits its verdict
	sent  func(nonce uint64) *Submitted // the submission of this process with that nonce whose verdict is awaited, or nil
}

// judgedPace is how often a transaction that is ahead looks whether a verdict on another one has come.
const judgedPace = time.Second

// decide tells the holder of the turn what the sender's next nonce is, and what to do.
//
// The lane knows its own transactions; the mirror node knows those of others, late. The larger nonce is right.
//
//	holder's nonce is                                         flowing   recovering
//	too low                                                   Go        Go: the precheck refuses it
//	next                                                      Go        Go
//	next, its predecessor is open                             Go        Await its verdict, then Go
//	ahead, predecessor is here                                GiveWay   GiveWay
//	ahead, in its window                                      Early     Early
//	ahead, after others here                                  PutBack   PutBack; once for Config.Late where the lane flows
//	ahead, chain is sure                                      Refuse    PutBack; where the lane flows only if it came after others
//	ahead, it came alone, and the missing one was answered    Go        Refuse
//	ahead, the network refused one ahead                      Refuse    PutBack; for Config.Late from that verdict on it is put back, too
//	ahead, while it judges one                                PutBack   PutBack
//	ahead, nothing is sure                                    Go        PutBack; the network judges
//
// TestPolicyIsAsDocumented reads the table.
func decide(k chain, f facts) Next {
	n := k.next(f)
	// While Redis is away another process may have gone on. So this process uses what it concludes
	// alone to order those who wait here, and refuses nothing because of it.
	likely := n.Nonce
	if n.Certainty != Chained && k.known {
		likely = max(likely, k.expected)
	}
	n.isNext = f.nonce == likely && (f.known.Looked || n.Certainty == Chained || f.open && k.known)
	n.ahead = n.Certainty != Unknown && f.nonce > likely
	f.known.Proven = max(f.known.Proven, k.proven)
	n.stand(f.nonce, f.outlastsGap, f.known)
	if f.nonce <= likely {
		n.Step = n.follow(f)
	} else {
		n.Step = n.wait(k, f, likely)
	}
	if f.known.Looked && n.outdated(f.known, k.gap) {
		n.Step = Look
	}
	return n
}

// next tells which nonce is next.
func (k chain) next(f facts) Next {
	shown := f.known.next()
	n := Next{Nonce: shown, Recovering: k.mode == recovering}
	if f.known.Looked {
		n.Certainty = Shown
	}
	if k.lastFence != 0 {
		n.Predecessor = k.last
	}
	own := k.known && !f.open
	switch {
	case own && k.sure && k.expected >= shown:
		n.Nonce, n.Certainty = k.expected, Chained
	case f.failed && f.failedAt >= shown:
		n.Nonce, n.Certainty = f.failedAt, Chained
	case own:
		n.Nonce, n.Certainty = max(k.expected, shown), Shown
	}
	return n
}

// nextOfNobody tells a holder without a lane, or whose turn is lost, how its nonce stands to what it knows itself.
func nextOfNobody(mine uint64, outlastsGap bool, known Known) Next {
	n := Next{Nonce: known.next()}
	if known.Looked {
		n.Certainty = Shown
	}
	n.stand(mine, outlastsGap, known)
	return n
}

// stand tells how a holder's nonce stands to the next one. kept: see facts.
func (n *Next) stand(mine uint64, outlastsGap bool, known Known) {
	n.Gap = int64(mine - n.Nonce)
	switch {
	case known.Looked && known.Shown >= mine, known.Proven >= mine:
		n.Standing = Reached
	case n.Gap == 0 && (n.Certainty == Chained || outlastsGap):
		n.Standing = InLine
	}
	if n.Recovering && n.Gap == 0 && known.Proven == mine {
		n.Certainty = Proven
	}
}

// follow is what a holder does whose nonce is next, or too low.
func (n *Next) follow(f facts) Step {
	if !n.Recovering || n.Gap != 0 {
		return Go
	}
	if o := f.sent(f.nonce); o != nil {
		n.Predecessor, n.Decided = o.sub, o.decided
	}
	if n.Predecessor.Open {
		return Await
	}
	return Go
}

// wait is what a holder does whose nonce is ahead of likely, which is next as far as this process knows.
func (n *Next) wait(k chain, f facts, likely uint64) Step {
	told, gap := n.Certainty != Unknown, notTried
	if k.known && k.expected == n.Nonce && !k.sure {
		gap = k.gap
	}
	late := f.waitsLate > 0 && f.recovery
	switch {
	case f.waits(likely) && (told || f.open):
		n.why, n.first = forNext, likely
		return GiveWay
	case n.Certainty == Chained && f.failed:
		return Refuse
	case told && f.inWindow:
		n.why = forWindow
		return Early
	case gap == certain && !f.outlastsGap && late && f.gapFor < f.waitsLate: // like the one that the network refused
		n.why, n.Within = forLate, f.waitsLate-f.gapFor
		return PutBack
	case gap == certain && !f.outlastsGap:
		return Refuse
	case told && n.Recovering && !f.follows && f.holeReported && !f.awaited:
		return Refuse // it came alone, after the one that is missing was answered
	case told && n.Recovering:
		return PutBack
	case told && f.followed && f.recovered: // what comes before it may be on its way back; what a verdict shows meanwhile counts
		n.why, n.Within = forVerdict, judgedPace
		return PutBack
	case told && f.known.Looked && f.followed && !f.outlastsGap && !f.late && late:
		n.why, n.Within = forLate, f.waitsLate
		return PutBack
	case n.Certainty == Chained && f.followed:
		// After a pause the sender may have sent what is missing some other way.
		return Refuse
	case told && f.recovery && (f.judge(likely) || gap == tried && f.gapFor < f.memory):
		n.why, n.Within = forVerdict, judgedPace
		return PutBack
	default:
		return Go
	}
}

// outdated tells whether the holder is to look again before it does what the lane says. A lane that recovers goes by what all
// processes know to be proven.
func (n *Next) outdated(known Known, gap missing) bool {
	if n.Recovering && !known.Fleet {
		return true
	}
	return n.Gap > 0 && !known.Fresh && (n.Step != Refuse || gap == certain) && !n.Step.Stays()
}

// failure is why the transactions from the nonce first to the nonce last were not sent. What follows them is
// missing for the same reason, even if it came to the lane after the first had failed.
type failure struct {
	first, last uint64
	cause       error         // nil: there is nothing to tell
	at          time.Duration // when that was; 0 = none has failed
	over        time.Duration // when a node took a transaction again; 0 = none has
}

// failedLately is for how long what no node took counts as missing, if it is not sent again.
const failedLately = 10 * time.Second

// explain returns what a transaction is told that entered then and is refused because the one with the missing nonce has not
// come: nil if the failure has nothing to do with it.
func (f *failure) explain(nonce uint64, entered time.Duration, missing uint64) error {
	if f.cause == nil || missing < f.first || missing > f.last || f.over != 0 && entered > f.over {
		return nil
	}
	f.last = max(f.last, nonce)
	return f.cause
}

// lasts tells whether no node has taken anything since a failure a short time ago.
func (f *failure) lasts(now time.Duration) bool {
	return f.at != 0 && f.over == 0 && now-f.at <= failedLately
}

// blocks tells whether a ticket came before a lower nonce failed, of which nothing has mended the failure yet.
func (f *failure) blocks(t *Ticket) bool {
	return f.at != 0 && f.over == 0 && t.came <= f.at && t.nonce > f.first && !t.heldBack()
}
