package policy

import (
	"context"
	"math/big"
	"strings"
	"time"

	"lockstep/internal/ledger"
)

// Budget is how much of a policy's budget for a day is used.
type Budget struct {
	Policy, Tenant string
	Actor          string // "": the budget is the tenant's
	Limit          *big.Int
	Held           *big.Int // for transactions without a fate
	Settled        *big.Int // what those with a fate have cost
}

// maxBudgets bounds one answer.
const maxBudgets = 500

// literal writes a text so that LIKE … ESCAPE '!' takes it as it is.
var literal = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// Budgets returns the day, and the budgets that were used on it: those of a tenant, or of all for "".
func (g *Guard) Budgets(ctx context.Context, tenant string) (day string, list []Budget, err error) {
	day = time.Now().UTC().Format(time.DateOnly)
	policies, err := g.List(ctx)
	if err != nil {
		return day, nil, err
	}
	err = g.db.Read(ctx, func(tx *ledger.Tx) error {
		list = nil
		for _, p := range policies {
			for _, kind := range []struct{ name, limit string }{{"tenant/", p.Rules.TenantDailyGas}, {"actor/", p.Rules.ActorDailyGas}} {
				limit := amount(kind.limit)
				if limit == nil || tenant != "" && p.Tenant != "" && p.Tenant != tenant {
					continue
				}
				prefix := p.ID + "/" + kind.name
				pattern := literal.Replace(prefix+tenant) + "%"
				switch {
				case tenant != "" && kind.name == "tenant/":
					pattern = literal.Replace(prefix + tenant)
				case tenant != "":
					pattern = literal.Replace(prefix+tenant+"/") + "%"
				}
				err := tx.Query(ctx, "SELECT scope, held, settled FROM spend WHERE day = $1 AND scope LIKE $2 ESCAPE '!' ORDER BY scope LIMIT $3", []any{day, pattern, maxBudgets - len(list)}, func(row ledger.Row) error {
					var scope, held, settled string
					if err := row.Scan(&scope, &held, &settled); err != nil {
						return err
					}
					b := Budget{Policy: p.ID, Tenant: strings.TrimPrefix(scope, prefix), Limit: limit, Held: amount(held), Settled: amount(settled)}
					if kind.name == "actor/" {
						b.Tenant, b.Actor, _ = strings.Cut(b.Tenant, "/")
					}
					list = append(list, b)
					return nil
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	return day, list, err
}
