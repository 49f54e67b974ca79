package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/ledger"
	"lockstep/watch/source"
)

type hash = common.Hash

// errDeposed means that a unit belongs to another process by now: nothing was written.
var errDeposed = errors.New("the unit belongs to another process")

func insertBlocks(ctx context.Context, tx *ledger.Tx, chain uint64, blocks []source.Block) error {
	_, err := ledger.Values(ctx, tx, "INSERT INTO watch_blocks (chain, number, hash, parent, time) VALUES %s ON CONFLICT (chain, number) DO UPDATE SET hash = excluded.hash, parent = excluded.parent, time = excluded.time", blocks,
		func(b source.Block) []any {
			return []any{int64(chain), int64(b.Number), b.Hash.Hex(), b.Parent.Hex(), int64(b.Time)}
		}, nil)
	return err
}

// queryBlocks reads the blocks from a number on that can still be replaced.
func queryBlocks(ctx context.Context, tx *ledger.Tx, chain, from uint64, each func(source.Block)) error {
	return tx.Query(ctx, "SELECT number, hash, parent, time FROM watch_blocks WHERE chain = $1 AND number >= $2 ORDER BY number", []any{int64(chain), int64(from)}, func(r ledger.Row) error {
		var b source.Block
		var h, parent string
		err := r.Scan(&b.Number, &h, &parent, &b.Time)
		b.Hash, b.Parent = common.HexToHash(h), common.HexToHash(parent)
		each(b)
		return err
	})
}

// chainState is what the fleet knows of a chain.
type chainState struct {
	head, safe uint64
	best       uint64 // the highest head that any endpoint has shown
	bestAt     int64  // when it did: microseconds since 1970
	pace       int64  // milliseconds from one block to the next; 0: unknown
	fork       int64
	blocks     map[uint64]source.Block
}

// lag is how many blocks somebody is behind who reads a block next: behind the highest head, and behind the clock where that stands.
func (s chainState) lag(next uint64) uint64 {
	best := max(s.best, s.head)
	age := time.Duration(time.Now().UnixMicro()-s.bestAt) * time.Microsecond
	return best + 1 - min(next, best+1) + overdue(age, time.Duration(s.pace)*time.Millisecond)
}

func readChain(ctx context.Context, tx *ledger.Tx, chain, from uint64) (s chainState, known bool, err error) {
	s.blocks = map[uint64]source.Block{}
	known, err = tx.One(ctx, "SELECT head, safe, fork, best, best_at, pace FROM watch_chains WHERE chain = $1", []any{int64(chain)}, &s.head, &s.safe, &s.fork, &s.best, &s.bestAt, &s.pace)
	if err != nil || !known {
		return s, known, err
	}
	return s, true, queryBlocks(ctx, tx, chain, from, func(b source.Block) { s.blocks[b.Number] = b })
}

// contract is a followed address, as its owner knows it.
type contract struct {
	watch      *Watch
	address    common.Address
	text       string // of the address
	unit       string
	factory    bool
	account    bool // only transactions are followed
	discovered uint64
	next       uint64 // first block that was not read for it; counts while it is not merged
	merged     bool   // it goes with its unit
	seq        int64  // of the last event that was announced
}

func (c *contract) key() contractKey { return contractKey{c.watch.Name, c.address} }

type contractKey struct {
	watch   string
	address common.Address
}

const contractColumns = "watch, address, unit, kind, discovered_block, next_block, merged, seq"

func (w *worker) queryContracts(ctx context.Context, tx *ledger.Tx, where ledger.SQL, args []any, each func(*contract)) error {
	return tx.Query(ctx, "SELECT "+contractColumns+" FROM contracts WHERE "+where, args, func(r ledger.Row) error {
		var c contract
		var watch, kind string
		var merged int
		if err := r.Scan(&watch, &c.text, &c.unit, &kind, &c.discovered, &c.next, &merged, &c.seq); err != nil {
			return err
		}
		c.watch, c.address, c.factory, c.merged = w.watches[watch], common.HexToAddress(c.text), kind == kindFactory, merged == 1
		if r := w.rules[c.watch]; r != nil && kind == kindGiven {
			_, c.account = r.accounts[c.address]
		}
		if c.watch != nil { // else its watch is not in this plan any more
			each(&c)
		}
		return nil
	})
}

// Kinds of contracts.
const (
	kindFactory = "factory"
	kindGiven   = "given"
	kindChild   = "child"
)

// newContract is a row to be made.
type newContract struct {
	watch   *Watch
	address common.Address
	kind    string
	block   uint64
	by      string // id of the factory's event
	fields  map[string]*string
}

func (n newContract) unit() string {
	if n.kind == kindFactory {
		return factoryUnit(n.watch.Name)
	}
	return shardUnit(n.watch.Chain, shardOf(n.address))
}

// insertContracts makes rows. One that was removed by a reorganisation comes back with its new discovery. The units
// that they need are made, too.
func insertContracts(ctx context.Context, tx *ledger.Tx, list []newContract, now int64) error {
	units := map[string][]any{}
	_, err := ledger.Values(ctx, tx, `INSERT INTO contracts (watch, chain, address, unit, kind, discovered_at, discovered_block, discovered_by, next_block, status, fields, payer, payee, amount,
			created_at, updated_at, merged, removed, stale, seq)
		SELECT column1, CAST(column2 AS BIGINT), column3, column4, column5, CAST(column6 AS BIGINT), CAST(column7 AS BIGINT), column8, CAST(column9 AS BIGINT), column10, column11,
			column12, column13, column14, CAST(column15 AS BIGINT), CAST(column15 AS BIGINT), 0, 0, 0, 0
		FROM (VALUES %s) AS v WHERE true
		ON CONFLICT (watch, chain, address) DO UPDATE SET removed = 0, merged = 0, discovered_at = excluded.discovered_at, discovered_block = excluded.discovered_block,
			discovered_by = excluded.discovered_by, next_block = excluded.next_block, status = excluded.status, fields = excluded.fields,
			payer = excluded.payer, payee = excluded.payee, amount = excluded.amount, updated_at = excluded.updated_at
		WHERE contracts.removed = 1`, list, func(n newContract) []any {
		fields := n.fields
		if fields == nil {
			fields = map[string]*string{}
		}
		if row, known := units[n.unit()]; !known || row[2].(int64) > int64(n.block) {
			units[n.unit()] = []any{n.unit(), int64(n.watch.Chain), int64(n.block)}
		}
		return []any{
			n.watch.Name, int64(n.watch.Chain), addressText(n.address), n.unit(), n.kind, now, int64(n.block), n.by, int64(n.block), n.watch.Status.Initial, encode(fields),
			nullable(fields["payer"]), nullable(fields["payee"]), nullable(fields["amount"]), now,
		}
	}, nil)
	if err != nil {
		return fmt.Errorf("contracts: %w", err)
	}
	_, err = ledger.Values(ctx, tx, `INSERT INTO cursors (unit, chain, next_block, parent, fork, owner, parked, checked)
		SELECT column1, CAST(column2 AS BIGINT), CAST(column3 AS BIGINT), '', COALESCE((SELECT fork FROM watch_chains WHERE chain = CAST(column2 AS BIGINT)), 0), '', 0, CAST(column3 AS BIGINT) - 1 FROM (VALUES %s) AS v WHERE true
		ON CONFLICT (unit) DO NOTHING`, slices.Collect(maps.Values(units)), ledger.AsIs, nil)
	if err != nil {
		return fmt.Errorf("cursors: %w", err)
	}
	return nil
}

func addressText(a common.Address) string { return a.Hex() }

// nullable is a business field as a column of text. PostgreSQL has no text with a zero byte.
func nullable(text *string) any {
	if text == nil {
		return nil
	}
	return strings.ReplaceAll(*text, "\x00", "\ufffd")
}
