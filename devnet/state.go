package devnet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"syscall"
	"time"

	"lockstep/devnet/ledger"
)

// DefaultStateInterval is how often state is saved while things happen.
const DefaultStateInterval = 10 * time.Second

// restful is how many times as long as a save takes it is until the next one.
const restful = 20

// ErrStateInUse is a file of state that another process, or another network of this one, has.
var ErrStateInUse = errors.New("another process uses it")

// stateFile keeps a ledger in a file.
type stateFile struct {
	path     string
	lock     *os.File // open for as long as the file is this network's
	ledger   *ledger.Ledger
	interval time.Duration
	saved    ledger.Mark // what the file has
	log      *slog.Logger
}

// openState loads the file if it exists, and makes it if it does not.
func openState(cfg *Config, l *ledger.Ledger) (*stateFile, error) {
	lock, err := lockState(cfg.State)
	if err != nil {
		return nil, err
	}
	s := &stateFile{path: cfg.State, lock: lock, ledger: l, interval: cfg.StateInterval, log: cfg.Log}
	if err := s.load(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// lockState takes the lock of a file of state, which the operating system gives back when the process ends,
// however it ends. The lock is on a file beside it: the file itself is replaced at every save. The file of the lock
// stays, since two processes could each have one if it were removed.
func lockState(path string) (*os.File, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrStateInUse
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--state %s: %w", path, err), lock.Close())
	}
	return lock, nil
}

func (s *stateFile) load() error {
	file, err := os.Open(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.save(s.ledger.Save)
	case err != nil:
		return fmt.Errorf("--state: %w", err)
	}
	if err := errors.Join(s.ledger.Load(file, math.MaxInt64), file.Close()); err != nil {
		return fmt.Errorf("--state %s cannot be loaded: %w", s.path, err)
	}
	s.saved = s.ledger.Mark()
	return nil
}

// close lets others have the file.
func (s *stateFile) close() { _ = s.lock.Close() } // nothing was written to it

// run saves now and then where something happened, until the context ends. What cannot be
// saved now may be later: that is logged.
func (s *stateFile) run(ctx context.Context) {
	timer := time.NewTimer(s.interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begin := time.Now()
		if s.ledger.Mark() != s.saved {
			err := s.save(func(w io.Writer) (ledger.Mark, error) { return s.ledger.SaveClosed(ctx, w) })
			if err != nil && ctx.Err() == nil && !errors.Is(err, ledger.ErrTurnedBack) {
				s.log.Error("the state of the network was not saved", "error", err)
			}
		}
		timer.Reset(max(s.interval, restful*time.Since(begin)))
	}
}

// last saves what there is at the end, and lets others have the file.
func (s *stateFile) last() error {
	defer s.close()
	return s.save(s.ledger.Save)
}

// save writes the whole file. Whatever happens meanwhile, the file is whole: the old one or the
// new one.
func (s *stateFile) save(write func(io.Writer) (ledger.Mark, error)) error {
	mark, err := s.replace(write)
	if err != nil {
		return fmt.Errorf("--state %s cannot be saved: %w", s.path, err)
	}
	s.saved = mark
	return nil
}

func (s *stateFile) replace(write func(io.Writer) (ledger.Mark, error)) (mark ledger.Mark, err error) {
	file, err := os.Create(s.path + ".tmp") // one that was left is written over
	if err != nil {
		return mark, err
	}
	buffered := bufio.NewWriterSize(file, 1<<20)
	mark, err = write(buffered)
	if err := errors.Join(err, buffered.Flush(), file.Sync(), file.Close()); err != nil {
		return mark, errors.Join(err, os.Remove(file.Name()))
	}
	return mark, os.Rename(file.Name(), s.path)
}
