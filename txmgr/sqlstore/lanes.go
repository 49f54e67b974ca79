package sqlstore

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// laneRow locks a lane's row and returns it without what is counted. Its pools are those of an operator's word.
func laneRow(ctx context.Context, tx *ledger.Tx, chain, signer string) (*txmgr.Lane, error) {
	lane, err := ledger.First(ledger.Select[txmgr.Lane](ctx, tx, "", "signer_chains WHERE chain = $1 AND signer = $2"+tx.ForUpdate(), chain, signer))
	if err == nil && lane == nil {
		err = fmt.Errorf("%w: %s on chain %s", txmgr.ErrUnknownSigner, signer, chain)
	}
	return lane, err
}

// saveLane writes back what can change of a lane that laneRow has locked.
func saveLane(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane) error {
	_, err := ledger.Update(ctx, tx, "signer_chains", "chain signer", "ours pools enabled paused_reason draining halted known chain_nonce next_nonce delegated balance"+
		" min_balance error_streak last_error last_seen assigned", []*txmgr.Lane{lane})
	return err
}

func lanesWhere(ctx context.Context, tx *ledger.Tx, condition ledger.SQL, args ...any) ([]*txmgr.Lane, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	args = append(args, now)
	var list []*txmgr.Lane
	query := `SELECT ` + ledger.Names[txmgr.Lane]("l.") + `,
		(SELECT count(*) FROM slots s WHERE s.chain = l.chain AND s.era = l.era AND s.signer = l.signer AND NOT s.final AND s.consumed = ''
			AND s.holder <> 'free'),
		(SELECT coalesce(min(s.assigned_at), 0) FROM slots s WHERE s.chain = l.chain AND s.era = l.era AND s.signer = l.signer AND NOT s.final AND s.consumed = ''),
		(SELECT count(*) FROM slots s WHERE s.chain = l.chain AND s.era = l.era AND s.signer = l.signer AND NOT s.final AND s.consumed = '' AND NOT s.signed AND s.holder <> 'foreign'
			AND s.nonce < (SELECT coalesce(max(m.nonce), 0) FROM slots m WHERE m.chain = l.chain AND m.era = l.era AND m.signer = l.signer AND NOT m.final AND m.sent_at > 0)),
		(SELECT coalesce(sum(CAST(s.cost AS DOUBLE PRECISION)), 0) FROM slots s WHERE s.chain = l.chain AND s.era = l.era AND s.signer = l.signer AND NOT s.final
			AND s.consumed = '' AND s.holder <> 'free'),
		coalesce(o.owner, ''), coalesce(o.term, 0)
		FROM signer_chains l LEFT JOIN leases o ON o.name = 'txm:' || l.chain || ':' || l.signer AND o.expires_at > $` + ledger.Number(len(args)) +
		` WHERE ` + condition + ` ORDER BY l.chain, l.created_at, l.signer`
	err = tx.Query(ctx, query, args, func(r ledger.Row) error {
		l := &txmgr.Lane{}
		var committed float64 // of numbers with 78 digits, which neither database adds up in the same way
		err := ledger.Scan(r, l, &l.Pending, &l.Oldest, &l.Gaps, &committed, &l.Owner, &l.Term)
		l.Committed, _ = big.NewFloat(committed).Int(nil)
		l.Locked = locked(l, now)
		if l.LastSeen > 0 {
			l.Unseen = time.Duration(max(now-l.LastSeen, 0)) * time.Microsecond
		}
		list = append(list, l)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, addHolders(ctx, tx, list, condition, args)
}

// Lane returns one lane.
func (s *Store) Lane(ctx context.Context, chain, signer string) (*txmgr.Lane, error) {
	lane, err := ledger.First(ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) ([]*txmgr.Lane, error) {
		return lanesWhere(ctx, tx, "l.chain = $1 AND l.signer = $2", chain, signer)
	}))
	if err == nil && lane == nil {
		err = fmt.Errorf("%w: %s on chain %s", txmgr.ErrUnknownSigner, signer, chain)
	}
	return lane, err
}

// Lanes returns the lanes of a chain, or all.
func (s *Store) Lanes(ctx context.Context, chain string) ([]*txmgr.Lane, error) {
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) ([]*txmgr.Lane, error) {
		return lanesWhere(ctx, tx, "($1 = '' OR l.chain = $1)", chain)
	})
}

// AddLane adds a lane if it is not there.
func (s *Store) AddLane(ctx context.Context, lane txmgr.Lane) (*txmgr.Lane, error) {
	err := s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error { return addLane(ctx, tx, now, lane) })
	if err != nil {
		return nil, err
	}
	return s.Lane(ctx, lane.Chain, lane.Signer)
}

func addLane(ctx context.Context, tx *ledger.Tx, now int64, lane txmgr.Lane) error {
	if _, err := tx.Exec(ctx, "INSERT INTO signers (signer, created_at) VALUES ($1, $2) ON CONFLICT (signer) DO NOTHING", lane.Signer, now); err != nil {
		return err
	}
	state, err := chainRow(ctx, tx, lane.Chain)
	if err != nil {
		return err
	}
	n, err := tx.Exec(ctx, `INSERT INTO signer_chains (chain, signer, ours, era, created_at, tenant) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (chain, signer) DO NOTHING`, lane.Chain, lane.Signer, lane.Ours, state.Era, now, lane.Tenant)
	if err != nil {
		return err
	}
	if !lane.Ours {
		if n == 0 {
			return wakeLane(ctx, tx, now, lane)
		}
		var accounts int
		if _, err := tx.One(ctx, "SELECT count(*) FROM signer_chains WHERE NOT ours AND tenant = $1", []any{lane.Tenant}, &accounts); err != nil {
			return err
		}
		if accounts > txmgr.MaxAccounts {
			return fmt.Errorf("%w: the tenant has %d accounts that sign for themselves; one is forgotten after a day without a transaction", txmgr.ErrTooMany, accounts-1)
		}
		return nil
	}
	row, err := laneRow(ctx, tx, lane.Chain, lane.Signer)
	if err != nil {
		return err
	}
	pools := union(row.Pools, lane.Pools)
	if row.Ours && len(pools) == len(row.Pools) {
		return nil
	}
	row.Ours, row.Pools = true, pools
	return saveLane(ctx, tx, row)
}

// asleep reports whether a lane, whose row is locked, is one that nobody has looked after.
func asleep(ctx context.Context, tx *ledger.Tx, now int64, lane *txmgr.Lane) (bool, error) {
	if lane.Ours || !lane.Known || lane.LastSeen == 0 {
		return false, nil
	}
	lane.Unseen = time.Duration(max(now-lane.LastSeen, 0)) * time.Microsecond
	lane.Locked = locked(lane, now)
	if !lane.Asleep() {
		return false, nil
	}
	var err error
	lane.Pending, err = inFlight(ctx, tx, lane)
	return lane.Asleep(), err
}

// inFlight counts a lane's slots that somebody has and that are not consumed.
func inFlight(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane) (n int, err error) {
	_, err = tx.One(ctx, "SELECT count(*) FROM slots WHERE chain = $1 AND era = $2 AND signer = $3 AND NOT final AND consumed = '' AND holder <> 'free'",
		[]any{lane.Chain, lane.Era, lane.Signer}, &n)
	return n, err
}

// wakeLane has the owner of a lane that is asleep read its nonce.
func wakeLane(ctx context.Context, tx *ledger.Tx, now int64, lane txmgr.Lane) error {
	row, err := laneRow(ctx, tx, lane.Chain, lane.Signer)
	if err != nil {
		return err
	}
	if old, err := asleep(ctx, tx, now, row); err != nil || !old {
		return err
	}
	row.Known = false
	return saveLane(ctx, tx, row)
}

func union(list, more []string) []string {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}

// keyholder is what a process says of a lane whose key it has.
type keyholder struct {
	Instance string   `db:"instance"`
	Chain    string   `db:"chain"`
	Signer   string   `db:"signer"`
	Pools    []string `db:"pools"`
}

// Hold says of which lanes a process has the key.
func (s *Store) Hold(ctx context.Context, instance string, lanes []txmgr.Lane) error {
	return s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		if _, err := tx.Exec(ctx, "DELETE FROM keyholders WHERE instance = $1", instance); err != nil {
			return err
		}
		list := make([]*keyholder, len(lanes))
		for n, lane := range lanes {
			if err := addLane(ctx, tx, now, txmgr.Lane{Chain: lane.Chain, Signer: lane.Signer, Ours: true}); err != nil {
				return err
			}
			list[n] = &keyholder{instance, lane.Chain, lane.Signer, lane.Pools}
		}
		return ledger.Insert(ctx, tx, "keyholders", list, "", nil)
	})
}

// addHolders adds to lanes what living processes say of them, or else what those said that have had them last. The condition is
// of lanes and of the time, its last argument.
func addHolders(ctx context.Context, tx *ledger.Tx, list []*txmgr.Lane, condition ledger.SQL, args []any) error {
	at := map[[2]string]*txmgr.Lane{}
	for _, l := range list {
		at[[2]string{l.Chain, l.Signer}] = l
		l.Absent = l.Ours
	}
	query := `SELECT ` + ledger.Names[keyholder]("l.") + `, n.name IS NOT NULL AS lives FROM keyholders l LEFT JOIN leases n ON n.name = 'node:txm:' || l.instance
		AND n.owner <> '' AND n.expires_at > $` + ledger.Number(len(args)) + " WHERE " + condition + " ORDER BY lives DESC, l.instance"
	return tx.Query(ctx, query, args, func(r ledger.Row) error {
		var k keyholder
		var lives bool
		if err := ledger.Scan(r, &k, &lives); err != nil {
			return err
		}
		switch l := at[[2]string{k.Chain, k.Signer}]; {
		case l == nil:
		case lives:
			l.Absent, l.Holders, l.Pools = false, append(l.Holders, k.Instance), union(l.Pools, k.Pools)
		case l.Absent:
			l.Pools = union(l.Pools, k.Pools)
		}
		return nil
	})
}

func chainRow(ctx context.Context, tx *ledger.Tx, chain string) (state txmgr.ChainState, err error) {
	err = tx.Query(ctx, "SELECT "+ledger.Names[txmgr.ChainState]("")+" FROM chains WHERE chain = $1", []any{chain}, func(r ledger.Row) error { return ledger.Scan(r, &state) })
	return state, err
}

// Chain returns what is remembered of a chain.
func (s *Store) Chain(ctx context.Context, chain string) (txmgr.ChainState, error) {
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) (txmgr.ChainState, error) {
		return chainRow(ctx, tx, chain)
	})
}

// NoteChain stores identity, halt and newest final block; the era is ResetChain's. Owners of several
// lanes note at once what each has read: an identity and a halt stay, and the final block only rises. A chain's own name is no identity.
func (s *Store) NoteChain(ctx context.Context, chain string, state txmgr.ChainState) error {
	return s.db.Write(ctx, func(tx *ledger.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO chains (chain, identity, halted, final_number, final_hash) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (chain) DO UPDATE SET identity = CASE WHEN chains.identity IN ('', chains.chain) AND excluded.identity <> '' THEN excluded.identity ELSE chains.identity END,
			halted = CASE WHEN excluded.halted = '' THEN chains.halted ELSE excluded.halted END,
			final_hash = CASE WHEN excluded.final_number > chains.final_number THEN excluded.final_hash ELSE chains.final_hash END,
			final_number = CASE WHEN excluded.final_number > chains.final_number THEN excluded.final_number ELSE chains.final_number END
			WHERE chains.era = $6`,
			chain, state.Identity, state.Halted, int64(state.FinalNumber), state.FinalHash, state.Era)
		return err
	})
}

// Observe notes what an owner saw of its lane.
func (s *Store) Observe(ctx context.Context, f lease.Fence, chain, signer string, o txmgr.Observation) error {
	return s.owned(ctx, f, chain, signer, func(tx *ledger.Tx, now int64, l *txmgr.Lane) error {
		if o.ChainNonce != nil {
			l.ChainNonce = *o.ChainNonce
		}
		void := o.FirstUse && l.Known || o.Ahead != nil && l.NextNonce >= *o.Ahead
		if o.Halted != nil && !void {
			l.Halted = *o.Halted
		}
		if o.NextNonce != nil && (!l.Known || *o.NextNonce > l.NextNonce) {
			l.NextNonce, l.Known = *o.NextNonce, true
		}
		if o.Balance != nil {
			l.Balance = o.Balance
		}
		if o.Delegated != nil {
			l.Delegated = *o.Delegated
		}
		if o.Failed != nil {
			l.Streak++
			l.LastError = clip(*o.Failed)
		}
		if o.Succeeded {
			l.Streak = 0
		}
		if o.ChainNonce != nil || o.Succeeded {
			l.LastSeen = now
		}
		return saveLane(ctx, tx, l)
	})
}

// maxText bounds texts of endpoints that are stored.
const maxText = 500

func clip(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?") // PostgreSQL takes no NUL
}

// Operate changes what an operator decides.
func (s *Store) Operate(ctx context.Context, chain, signer, actor string, o txmgr.Operation) (*txmgr.Lane, error) {
	err := s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		l, err := laneRow(ctx, tx, chain, signer)
		if err != nil {
			return err
		}
		if o.Enabled != nil {
			l.Enabled, l.PausedReason = *o.Enabled, clip(o.Reason)
			if l.Enabled {
				l.PausedReason, l.Streak = "", 0
			}
		}
		if o.Draining != nil {
			l.Draining = *o.Draining
		}
		if o.MinBalance != nil {
			l.MinBalance = o.MinBalance
		}
		if err := saveLane(ctx, tx, l); err != nil {
			return err
		}
		return audit(ctx, tx, now, actor, "signer.operate", chain+"/"+signer, asJSON(&o))
	})
	if err != nil {
		return nil, err
	}
	return s.Lane(ctx, chain, signer)
}

// slotsWhere reads a lane's slots in the order of their nonces.
func slotsWhere(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, condition, suffix ledger.SQL, args ...any) ([]*txmgr.Slot, error) {
	args = append([]any{lane.Chain, lane.Era, lane.Signer}, args...)
	return ledger.Select[txmgr.Slot](ctx, tx, "", "slots WHERE chain = $1 AND era = $2 AND signer = $3 AND "+condition+" ORDER BY nonce"+suffix, args...)
}

// freeSlots reads the lowest slots of a lane that nobody has, a maximum of limit.
func freeSlots(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, limit int, lock ledger.SQL) ([]*txmgr.Slot, error) {
	return slotsWhere(ctx, tx, lane, "NOT final AND holder = 'free' AND consumed = ''", " LIMIT "+ledger.Number(limit)+lock)
}

// slotsByNonce locks slots.
func slotsByNonce(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, nonces []uint64) (map[uint64]*txmgr.Slot, error) {
	found := map[uint64]*txmgr.Slot{}
	_, err := ledger.In(ctx, tx, "SELECT "+ledger.Names[txmgr.Slot]("")+" FROM slots WHERE chain = $1 AND era = $2 AND signer = $3 AND nonce IN %s ORDER BY nonce"+tx.ForUpdate(),
		[]any{lane.Chain, lane.Era, lane.Signer}, nonces, func(r ledger.Row) error {
			s := &txmgr.Slot{}
			err := ledger.Scan(r, s)
			found[s.Nonce] = s
			return err
		})
	return found, err
}

func saveSlots(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, list ...*txmgr.Slot) error {
	for _, s := range list {
		s.Chain, s.Era, s.Signer = lane.Chain, lane.Era, lane.Signer
	}
	if err := ledger.Put(ctx, tx, "slots", "chain era signer nonce", list); err != nil {
		return fmt.Errorf("store slots: %w", err)
	}
	return nil
}

func attemptsWhere(ctx context.Context, tx *ledger.Tx, condition ledger.SQL, args ...any) ([]*txmgr.Attempt, error) {
	return ledger.Select[txmgr.Attempt](ctx, tx, "", "attempts WHERE "+condition+" ORDER BY nonce, version", args...)
}

// attemptsBetween are those of a lane's nonces from the first to the last. A join with the
// open slots would name fewer, but a database that has not counted its rows yet compares
// every slot with every attempt.
func attemptsBetween(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, first, last uint64) ([]*txmgr.Attempt, error) {
	return attemptsWhere(ctx, tx, "chain = $1 AND era = $2 AND signer = $3 AND nonce >= $4 AND nonce <= $5", lane.Chain, lane.Era, lane.Signer, int64(first), int64(last))
}

func insertAttempts(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, list []*txmgr.Attempt) error {
	for _, a := range list {
		a.Chain, a.Era, a.Signer = lane.Chain, lane.Era, lane.Signer
	}
	if err := ledger.Insert(ctx, tx, "attempts", list, "", nil); err != nil {
		return fmt.Errorf("store attempts: %w", err)
	}
	return nil
}

// saveAttempts writes back what can change of an attempt; its bytes never do.
func saveAttempts(ctx context.Context, tx *ledger.Tx, list []*txmgr.Attempt) error {
	if _, err := ledger.Update(ctx, tx, "attempts", "chain era hash tag", "state ambiguous sent_at offers refused_at error_class error", list); err != nil {
		return fmt.Errorf("update attempts: %w", err)
	}
	return nil
}
