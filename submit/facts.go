package submit

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"lockstep/eth"
	"lockstep/hedera"
	"lockstep/lock"
	"lockstep/precheck"
)

// Chain answers what the prechecks need to know. It is implemented over the
// mirror node; its answers may lag behind consensus by a few seconds.
type Chain interface {
	// Account looks an account up by EVM address. found is false when there is none.
	Account(ctx context.Context, address common.Address) (account Account, found bool, err error)
	// GasPrice returns the network's gas price in weibar, the operator's buffer
	// included. The result is not shared.
	GasPrice(ctx context.Context) (*big.Int, error)
	// Changed says that a transaction of sender reached consensus, so that what was
	// remembered from before is stale.
	Changed(sender common.Address)
}

// ahead is a chain that shows of senders' nonces what the network has proved, too: the pool
// knows it from receipts, before the mirror node does. What is proved stays true, so that a
// lower nonce is refused rightly, and without being paid for.
type ahead struct {
	Chain
	pool Pool
}

// Account implements Chain.
func (c ahead) Account(ctx context.Context, address common.Address) (Account, bool, error) {
	account, found, err := c.Chain.Account(ctx, address)
	account.Nonce = max(account.Nonce, c.pool.Proven(address))
	return account, found, err
}

// Account is what the prechecks need of an account.
type Account struct {
	Nonce             uint64
	Balance           hedera.Tinybar
	BalanceUnknown    bool // there is an account, and nobody can tell its balance
	SignatureRequired bool // as a receiver
}

// facts are look-ups under way: they run while the transaction is queued.
type facts struct {
	done  chan struct{}
	value known
	err   error
}

// known is the outcome of the look-ups.
type known struct {
	precheck.Facts
	nonce uint64    // the sender's next one, as far as the mirror node knows
	at    time.Time // when that was
}

// get waits for the look-ups.
func (f *facts) get(ctx context.Context) (known, error) {
	select {
	case <-f.done:
		return f.value, f.err
	default:
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return known{}, context.Cause(ctx)
	}
}

// lookUp starts the look-ups. They end by themselves: every call to the mirror
// node has a time limit. When they are in, the lane learns what nonce is next,
// which a burst that arrived out of order may be waiting for. If they fail, the
// transaction can go nowhere and does not wait for its turn either.
func (s *Submitter) lookUp(ctx context.Context, e *Entry) *facts {
	f := &facts{done: make(chan struct{})}
	if s.cfg.SkipLookUps {
		f.value.GasPrice = e.tx.GasPrice() // only for the fee cap
		close(f.done)
		return f
	}
	go func() {
		f.value, f.err = s.gather(ctx, e.tx)
		nonce := f.value.nonce // the turn may renew it
		close(f.done)
		switch {
		case f.err != nil:
			e.leave()
		case e.door == nil && e.ticket != nil: // behind a door others look up again
			e.ticket.Observe(nonce)
		}
	}()
	return f
}

// failure returns why the look-ups failed, or nil if they are under way or in.
func (f *facts) failure() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

func (s *Submitter) gather(ctx context.Context, tx *eth.Tx) (known, error) {
	var k known
	group, ctx := errgroup.WithContext(ctx)
	group.Go(safely(func() error {
		sender, found, err := s.chain.Account(ctx, tx.From())
		switch {
		case err != nil:
		case !found:
			err = eth.ErrSenderNotFound(tx.From())
		case sender.BalanceUnknown:
			err = eth.ErrBalanceUnknown(tx.From())
		}
		k.nonce, k.Balance, k.at = sender.Nonce, sender.Balance, time.Now()
		return err
	}))
	group.Go(safely(func() (err error) {
		k.GasPrice, err = s.chain.GasPrice(ctx)
		return err
	}))
	if tx.To() != nil {
		group.Go(safely(func() error {
			receiver, _, err := s.chain.Account(ctx, *tx.To())
			k.ReceiverMustSign = receiver.SignatureRequired
			return err
		}))
	}
	return k, group.Wait()
}

// safely makes an error of a panic, which in a goroutine of its own would end the
// process.
func safely(f func() error) func() error {
	return func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic in a look-up: %v", r)
			}
		}()
		return f()
	}
}

// factError translates a failed look-up or precheck for the client. What already
// is a client's error stays as it is.
func factError(err error) error {
	var client *eth.Error
	var coded interface{ ErrorCode() int }
	switch {
	case errors.As(err, &client):
		return client
	case errors.As(err, &coded):
		return err
	case errors.Is(err, lock.ErrLost):
		return eth.ErrTurnLost()
	case errors.Is(err, lock.ErrClosed):
		return eth.ErrShuttingDown()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return eth.ErrRequestTimeout()
	default:
		return eth.ErrInternal("looking up the sender failed")
	}
}
