package sqlstore

import (
	"context"
	"embed"
	"encoding/json"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

//go:embed migrations/*.sql
var files embed.FS

// Schema is the manager's part of the ledger.
var Schema = ledger.Schema{Name: "txm", Files: files}

// topic is the manager's in the outbox.
const topic = "txm"

// Store is a txmgr.Store on a ledger.
type Store struct {
	db        *ledger.DB
	together  group[accepting]
	reserving group[wanted]
}

var _ txmgr.Store = (*Store)(nil)

// New migrates the manager's tables and returns the store.
func New(ctx context.Context, db *ledger.DB) (*Store, error) {
	if err := db.Migrate(ctx, Schema); err != nil {
		return nil, err
	}
	return &Store{db: db}, nil
}

// channel carries the hints of managers that share a ledger.
const channel = "lockstep_txm"

type waker struct{ db *ledger.DB }

// Waker carries hints through PostgreSQL; nil where one process is alone with its file.
func (s *Store) Waker() txmgr.Waker {
	if s.db.Dialect() != ledger.Postgres {
		return nil
	}
	return waker{s.db}
}

// Tell says a word to every manager that listens.
func (w waker) Tell(ctx context.Context, word string) error { return w.db.Notify(ctx, channel, word) }

// Listen calls heard for every word.
func (w waker) Listen(ctx context.Context, heard func(word string)) { w.db.Listen(ctx, channel, heard) }

// Now returns the database's clock in microseconds since 1970.
func (s *Store) Now(ctx context.Context) (int64, error) {
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) (int64, error) { return tx.Now(ctx) })
}

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.db.Ping(ctx) }

// CheckIdentity fails with *ledger.RestoredError on a restored database.
func (s *Store) CheckIdentity(ctx context.Context) error { return s.db.CheckIdentity(ctx) }

// AcceptIdentity takes the database as it is, on an operator's word.
func (s *Store) AcceptIdentity(ctx context.Context, actor string) error {
	if err := s.Audit(ctx, actor, "ledger.accept", "ledger", ""); err != nil {
		return err
	}
	return s.db.AcceptIdentity(ctx)
}

// OnEnded sets what gets the intents that this process has ended.
func (s *Store) OnEnded(f func(*txmgr.Intent)) {
	s.db.OnEmitted(func(events []ledger.Event) {
		for _, e := range events {
			if i, ok := e.Of.(*txmgr.Intent); ok && i.Final {
				f(i)
			}
		}
	})
}

// Events returns the stream's events after a cursor.
func (s *Store) Events(ctx context.Context, after int64, limit int) ([]ledger.Event, error) {
	return s.db.Events(ctx, topic, after, limit)
}

// Sequence gives committed events their cursors.
func (s *Store) Sequence(ctx context.Context) (int64, error) { return s.db.Sequence(ctx) }

// asJSON writes a value as text.
func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic("a stored value cannot be encoded: " + err.Error()) // plain fields only
	}
	return string(text)
}
