package submit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/metric"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/telemetry"
	"lockstep/lock"
)

// Outcome is the class of a submission's end. It is never a bool: what is unknown
// must not pass for a rejection.
type Outcome uint8

// The outcomes; the package comment says what each means.
const (
	NotSent Outcome = iota + 1
	Rejected
	Unknown
	Reverted
	Executed
)

// String returns the outcome's name as it appears in logs and metrics.
func (o Outcome) String() string {
	switch o {
	case NotSent:
		return "not_sent"
	case Rejected:
		return "rejected"
	case Unknown:
		return "unknown"
	case Reverted:
		return "reverted"
	case Executed:
		return "executed"
	default:
		return "none"
	}
}

// Result is what became of one raw transaction, and how certain that is.
type Result struct {
	Outcome Outcome
	// Hash is the transaction's hash, whatever the outcome; zero if the bytes are no transaction.
	Hash common.Hash
	// Status is the network's word: of a node's precheck if Outcome is Rejected and no node took
	// the transaction, else of the receipt. Zero means that the network said nothing.
	Status hedera.Status
	// TransactionID and Node are the id and the node of the transaction's last offer. They are zero if it was
	// offered to no node.
	TransactionID hedera.TransactionID
	Node          hedera.ID
	// Err is what a client is told instead of the hash. It is nil for Executed, for Reverted, and
	// for Unknown where the settings promise the hash before the verdict.
	Err error

	atConsensus bool   // the transaction reached consensus, so it costs the payer
	ran         bool   // … and was run there, so that the sender's next nonce is past it
	back        string // it may go back to its line, for this reason: it was certainly not executed; of backVanished one node says so
	passing     bool   // no node has it, for a reason that passes
	tooHigh     bool   // consensus refused its nonce, which was too high
	nonceSpent  bool   // the transaction was not sent because its nonce is spent, perhaps by itself
}

// status names the network's word, or returns none if there is none.
func (r Result) status(none string) string {
	if r.Status == 0 {
		return none
	}
	return r.Status.String()
}

// notSent is the result of a transaction of which no byte left this process.
func notSent(err error) Result { return Result{Outcome: NotSent, Err: clientError(err)} }

// failedCheck is the result of a transaction that a precheck refused; expected is the nonce that
// the check went by.
func (e *Entry) failedCheck(err error, expected uint64) Result {
	r := notSent(err)
	r.nonceSpent = e.tx.Nonce() < expected
	return r
}

// clientError is what the client is told of an error before its transaction was sent: of the lock, of a look-up, of
// a precheck, or of the client of the nodes. What is a client's error stays as it is.
func clientError(err error) error {
	var client *eth.Error
	var coded interface{ ErrorCode() int }
	var full *lock.QueueFullError
	switch {
	case errors.As(err, &client):
		return client
	case errors.As(err, &coded):
		return err
	case errors.As(err, &full):
		return eth.ErrQueueFull(full.Length)
	case errors.Is(err, lock.ErrLost):
		return eth.ErrTurnLost
	case errors.Is(err, lock.ErrClosed), errors.Is(err, consensus.ErrClosed):
		return eth.ErrShuttingDown
	case errors.Is(err, consensus.ErrNoOperator):
		return eth.ErrReadOnly
	case errors.Is(err, lock.ErrLeft), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return eth.ErrRequestTimeout // the caller gave up waiting
	default:
		return eth.ErrInternal("looking up the sender failed")
	}
}

// submissionError translates what package consensus answers to Submit when nothing was accepted anywhere. The
// type of the error says what is certain, and the result keeps that.
func (s *Submitter) submissionError(err error) Result {
	var refused *consensus.StatusError
	var client *eth.Error
	switch {
	case errors.As(err, &client), errors.Is(err, lock.ErrLost): // the budget's; or the turn was lost, whatever a node had said before
		return notSent(err)
	case errors.As(err, &refused):
		return Result{
			Outcome: Rejected, Status: refused.Status, TransactionID: refused.TransactionID, Node: refused.Node,
			Err: s.refusal(refused.Status), passing: consensus.NotNow(refused.Status),
		}
	case errors.Is(err, consensus.ErrNoOperator), errors.Is(err, consensus.ErrClosed):
		return notSent(err)
	default:
		return Result{Outcome: NotSent, Err: eth.ErrNoNode, passing: true}
	}
}

// refusal is the client's error for a node's precheck answer.
func (s *Submitter) refusal(status hedera.Status) error {
	const busy = "the consensus nodes take no transactions at the moment; nothing was submitted, send it again"
	switch notNow := consensus.NotNow(status); {
	case notNow && s.rejects[status]:
		return eth.ErrRejected(status.String(), busy)
	case notNow:
		return eth.ErrConsensusNode(status.String(), int(status), busy)
	case s.rejects[status]:
		return eth.ErrRejected(status.String(), "")
	default:
		return eth.ErrConsensusNode(status.String(), int(status), "the consensus node did not accept the transaction")
	}
}

// statusSet reads the names of HEDERA_SPECIFIC_REVERT_STATUSES; none means the
// built-in list.
func statusSet(names []string) (map[hedera.Status]bool, error) {
	if len(names) == 0 {
		names = hedera.NeverExecuted()
	}
	set := make(map[hedera.Status]bool, len(names))
	var errs []error
	for _, name := range names {
		status, ok := hedera.ParseStatus(name)
		if !ok {
			errs = append(errs, errors.New("HEDERA_SPECIFIC_REVERT_STATUSES: no such status: "+name))
		}
		set[status] = true
	}
	return set, errors.Join(errs...)
}

type metrics struct {
	metric.Set
	executions, stale, filesLeft    prometheus.Counter
	outcomes, wrongNonce, recovered *prometheus.CounterVec
	seconds                         *prometheus.HistogramVec
}

func newMetrics(inProgress func() int) *metrics {
	m := &metrics{}
	m.Asked("rpc_relay_tx_in_progress", "Transactions between arrival and verdict, queued ones included.", func() float64 { return float64(inProgress()) })
	m.executions = m.Counters("rpc_relay_eth_executions", "Transactions handed to the consensus client.", "method").WithLabelValues("eth_sendRawTransaction")
	m.stale = m.Counter("lockstep_submissions_with_stale_facts_total", "Transactions that were sent with what was known before the mirror node stopped answering, since they were certainly next.")
	m.outcomes = m.Counters("rpc_relay_tx_outcomes_total", "Raw transactions by final outcome and network status.", "outcome", "status")
	m.seconds = m.Histograms("rpc_relay_tx_seconds", "Time from arrival to the final outcome.", []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "outcome")
	m.wrongNonce = m.Counters("rpc_relay_wrong_nonce_errors_total", "Transactions that reached consensus with a nonce that was not next.", "strategy")
	m.recovered = m.Counters("lockstep_tx_recovered_total", "Times that a transaction was certainly not executed and went back to its sender's line.", "reason")
	m.filesLeft = m.Counter("rpc_relay_files_left_total", "Files with call data that could not be deleted after their transaction.")
	return m
}

// Collectors returns the metrics for registration.
func (s *Submitter) Collectors() []prometheus.Collector { return s.metrics.Collectors() }

// log counts and logs the final result of a transaction: one line each, and
// never its bytes.
func (e *Entry) log(r Result) {
	s, status := e.s, r.status("none")
	took := time.Since(e.arrived)
	s.metrics.outcomes.WithLabelValues(r.Outcome.String(), status).Inc()
	telemetry.ObserveIn(e.traceID, s.metrics.seconds.WithLabelValues(r.Outcome.String()), took.Seconds())
	attrs := []slog.Attr{
		slog.String("outcome", r.Outcome.String()),
		slog.String("hash", e.tx.Hash().Hex()),
		slog.Any("sender", e.tx.From()), // spelt as in all other lines, without capitals
		slog.Uint64("nonce", e.tx.Nonce()),
		slog.Uint64("gas", e.tx.Gas()),
		slog.Duration("took", took),
	}
	if e.asker.ID != "" {
		attrs = append(attrs, slog.String("request_id", e.asker.ID))
	}
	if e.asker.Client != "" {
		attrs = append(attrs, slog.String("client", e.asker.Client))
	}
	if r.Status != 0 {
		attrs = append(attrs, slog.String("status", status))
	}
	if !r.TransactionID.IsZero() {
		attrs = append(attrs, slog.String("transaction", r.TransactionID.String()), slog.String("node", r.Node.String()))
	}
	if e.fence != 0 {
		attrs = append(attrs, slog.Uint64("fence", e.fence))
	}
	if r.Err != nil {
		attrs = append(attrs, slog.String("reason", r.Err.Error()))
	}
	s.Log.LogAttrs(context.Background(), slog.LevelInfo, "transaction", attrs...) //nolint:forbidigo // the request may be long over
}

// publish spreads the final result.
func (e *Entry) publish(r Result) {
	step := lifecycle.Step{Name: r.step(), Node: r.Node, Transaction: r.TransactionID, Spent: r.nonceSpent, Status: r.status("")}
	if r.Err != nil {
		step.Error = r.Err.Error()
	}
	e.trace(step)
	e.s.Pool.Done(e.tx, r.ran, !r.ran && (r.Outcome == Unknown || r.Outcome == Reverted))
}

// step names the result in a trace.
func (r Result) step() string {
	switch r.Outcome {
	case Executed, Reverted:
		return lifecycle.Consensus
	case NotSent, Rejected:
		return lifecycle.Rejected
	default:
		return lifecycle.Unknown
	}
}
