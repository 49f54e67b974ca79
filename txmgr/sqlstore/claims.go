package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// claimOnce takes what intents carry and may be executed once. An earlier intent that ended without being executed
// gives way; any other keeps its claim, and ErrReplayed is returned.
func claimOnce(ctx context.Context, tx *ledger.Tx, list []*txmgr.Intent) error {
	type claim struct{ chain, name, intent string }
	var claims []claim
	for _, i := range list {
		for _, name := range i.Claims {
			claims = append(claims, claim{i.Chain, name, i.ID})
		}
	}
	// In one order everywhere, so that two callers cannot wait for each other.
	slices.SortFunc(claims, func(a, b claim) int { return cmp.Or(cmp.Compare(a.chain, b.chain), cmp.Compare(a.name, b.name)) })
	for _, c := range claims {
		n, err := tx.Exec(ctx, "INSERT INTO claims (chain, name, intent) VALUES ($1, $2, $3) ON CONFLICT (chain, name) DO NOTHING", c.chain, c.name, c.intent)
		if err == nil && n == 0 {
			n, err = tx.Exec(ctx, `UPDATE claims SET intent = $1 WHERE chain = $2 AND name = $3 AND intent IN
				(SELECT id FROM intents WHERE final AND status IN ('failed', 'cancelled', 'expired', 'replaced'))`, c.intent, c.chain, c.name)
		}
		if err != nil {
			return fmt.Errorf("store claims: %w", err)
		}
		if n == 0 {
			return fmt.Errorf("%w: %s", txmgr.ErrReplayed, c.name)
		}
	}
	return nil
}
