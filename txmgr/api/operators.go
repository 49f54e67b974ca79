package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/txmgr"
	"lockstep/txmgr/policy"
	"lockstep/txmgr/webhooks"
)

// Signer is an account that the manager knows on one chain.
type Signer struct {
	Chain        string    `json:"chain"`
	Address      string    `json:"address"`
	Ours         bool      `json:"ours" doc:"The manager holds its key; otherwise its callers sign."`
	Pools        []string  `json:"pools"`
	Enabled      bool      `json:"enabled"`
	PausedReason string    `json:"pausedReason,omitempty"`
	Draining     bool      `json:"draining"`
	Halted       string    `json:"halted,omitempty" doc:"Why nothing is signed until an operator reconciles."`
	PassedOver   string    `json:"passedOver,omitempty" doc:"Why it gets no new intents, in words; none if it gets some."`
	ChainNonce   uint64    `json:"chainNonce"`
	NextNonce    uint64    `json:"nextNonce"`
	Pending      int       `json:"pending"`
	OldestAt     *Moment   `json:"oldestPendingAt,omitempty" doc:"When the oldest of them got its nonce."`
	Gaps         int       `json:"gaps"`
	Balance      *Quantity `json:"balance,omitempty"`
	MinBalance   *Quantity `json:"minBalance,omitempty"`
	Unit         string    `json:"unit,omitempty" doc:"Of the chain's money, such as ETH."`
	Decimals     int       `json:"decimals,omitempty" doc:"How many of its digits are behind the point; amounts are in the smallest unit."`
	ErrorStreak  int       `json:"errorStreak"`
	LastError    string    `json:"lastError,omitempty"`
	LastSeen     *Moment   `json:"lastSeen,omitempty"`
	Owner        string    `json:"owner,omitempty"`
	Term         int64     `json:"term,omitempty"`
}

func (s *Server) viewSigner(l *txmgr.Lane, kills map[string]string) Signer {
	var unit txmgr.Unit
	if chain, err := s.Manager.Chain(l.Chain); err == nil { // of a chain that left the settings nothing is known
		unit = chain.Traits().Unit
	}
	return Signer{
		Unit: unit.Name, Decimals: unit.Decimals, Chain: l.Chain, Address: l.Signer, Ours: l.Ours, Pools: l.Pools, Enabled: l.Enabled, PausedReason: l.PausedReason, Draining: l.Draining, Halted: l.Halted,
		ChainNonce: l.ChainNonce, NextNonce: l.NextNonce, Pending: l.Pending, OldestAt: moment(l.Oldest), Gaps: l.Gaps, Balance: quantity(l.Balance), MinBalance: quantity(l.MinBalance),
		ErrorStreak: l.Streak, LastError: l.LastError, LastSeen: moment(l.LastSeen), Owner: l.Owner, Term: l.Term,
		PassedOver: s.Manager.PassedOver(l, kills),
	}
}

// SignerPath names a signer.
type SignerPath struct {
	Chain   string `path:"chain" maxLength:"64"`
	Address string `path:"address" maxLength:"80"`
}

func (p SignerPath) chain() string { return chainName(p.Chain) }

type addSignerInput struct {
	Body struct {
		Chain   ChainID  `json:"chain"`
		Address string   `json:"address" maxLength:"80"`
		Pools   []string `json:"pools,omitempty" maxItems:"20" doc:"Besides default, which holds every signer whose key is here."`
	}
}

type pauseInput struct {
	SignerPath
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"256"`
	} `required:"false"`
}

type reconcileInput struct {
	SignerPath
	Body *struct {
		Adopt bool `json:"adopt,omitempty" doc:"Somebody else's transactions wait: go on after them."`
		Reset bool `json:"reset,omitempty" doc:"The chain was reset: forget what was on its way."`
	} `required:"false"`
}

type signersOut struct {
	Body struct {
		Signers []Signer `json:"signers"`
	}
}

// Pool is a named set of signers on a chain.
type Pool struct {
	Chain   string   `json:"chain"`
	Name    string   `json:"name"`
	Signers []string `json:"signers"`
}

type poolsOut struct {
	Body struct {
		Pools []Pool `json:"pools"`
	}
}

type feesOut struct {
	Body struct {
		Chain   string             `json:"chain"`
		BaseFee *Quantity          `json:"baseFee,omitempty" doc:"None on a chain without one."`
		Speeds  map[string]feeView `json:"speeds"`
		At      *Moment            `json:"at"`
	}
}

type feeView struct {
	MaxFeePerGas         *Quantity `json:"maxFeePerGas"`
	MaxPriorityFeePerGas *Quantity `json:"maxPriorityFeePerGas,omitempty"`
}

type killInput struct {
	Body struct {
		Scope  string `json:"scope" maxLength:"256" doc:"all, chain/ID, pool/ID/NAME or signer/ID/ACCOUNT." examples:"all"`
		On     bool   `json:"on"`
		Reason string `json:"reason,omitempty" maxLength:"256"`
	}
}

type killsOut struct {
	Body struct {
		Switches map[string]string `json:"switches" doc:"Those that are on, with their reasons."`
	}
}

func (s *Server) operators() {
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/signers", "signers", "The signers and how they are"), func(ctx context.Context, in *ChainQuery) (*signersOut, error) {
		lanes, err := s.Manager.Signers(ctx, in.chain())
		if err != nil {
			return nil, err
		}
		kills, err := s.Manager.Kills(ctx)
		if err != nil {
			return nil, err
		}
		out := &signersOut{}
		out.Body.Signers = make([]Signer, 0, len(lanes))
		who := caller(ctx)
		for _, l := range lanes {
			if l.Ours || who.Tenant == "" || l.Tenant == who.Tenant { // accounts that sign for themselves are their tenant's business
				out.Body.Signers = append(out.Body.Signers, s.viewSigner(l, kills))
			}
		}
		return out, nil
	})
	add := s.Operation(access.RoleAdmin, http.MethodPost, "/v1/signers", "addSigner", "Make an account a signer of a chain")
	add.Description = "A request never contains a key. If this process has the account's key, the manager signs for it on the chain and in the pools. Otherwise callers sign themselves."
	rest.Register(s.Server, add, func(ctx context.Context, in *addSignerInput) (*rest.Out[Signer], error) {
		return s.changed(ctx)(s.Manager.AddAccount(ctx, string(in.Body.Chain), in.Body.Address, caller(ctx).Name, in.Body.Pools...))
	})
	operate := func(ctx context.Context, p SignerPath, o txmgr.Operation) (*rest.Out[Signer], error) {
		return s.changed(ctx)(s.Manager.Operate(ctx, p.chain(), p.Address, caller(ctx).Name, o))
	}
	for _, verb := range []struct {
		name, summary string
		do            txmgr.Operation
	}{
		{"resume", "Enable a signer again, and end a drain", txmgr.Operation{Enabled: new(true), Draining: new(false)}},
		{"drain", "Assign nothing more to a signer and let it finish", txmgr.Operation{Draining: new(true)}},
	} {
		rest.Register(s.Server, s.Operation(access.RoleAdmin, http.MethodPost, "/v1/signers/{chain}/{address}/"+verb.name, verb.name, verb.summary), func(ctx context.Context, in *SignerPath) (*rest.Out[Signer], error) {
			return operate(ctx, *in, verb.do)
		})
	}
	rest.Register(s.Server, s.Operation(access.RoleAdmin, http.MethodPost, "/v1/signers/{chain}/{address}/pause", "pause", "Give a signer nothing new"), func(ctx context.Context, in *pauseInput) (*rest.Out[Signer], error) {
		reason := "by an operator"
		if in.Body != nil && in.Body.Reason != "" {
			reason = in.Body.Reason
		}
		return operate(ctx, in.SignerPath, txmgr.Operation{Enabled: new(false), Reason: reason})
	})
	rest.Register(s.Server, s.Operation(access.RoleAdmin, http.MethodPost, "/v1/signers/{chain}/{address}/reconcile", "reconcile", "End a signer's halt after its cause was found"), func(ctx context.Context, in *reconcileInput) (*rest.Out[Signer], error) {
		var o txmgr.ReconcileOptions
		if in.Body != nil {
			o = txmgr.ReconcileOptions{Adopt: in.Body.Adopt, Reset: in.Body.Reset}
		}
		return s.changed(ctx)(s.Manager.Reconcile(ctx, in.chain(), in.Address, caller(ctx).Name, o))
	})
	rest.Register(s.Server, s.Operation(access.RoleAdmin, http.MethodPost, "/v1/signers/{chain}/{address}/min-balance", "setMinBalance", "Set the balance below which a signer gets nothing new"), func(ctx context.Context, in *struct {
		SignerPath
		Body struct {
			MinBalance Quantity `json:"minBalance"`
		}
	},
	) (*rest.Out[Signer], error) {
		return operate(ctx, in.SignerPath, txmgr.Operation{MinBalance: in.Body.MinBalance.Int})
	})
	topUp := s.Operation(access.RoleAdmin, http.MethodPost, "/v1/signers/{chain}/{address}/top-up", "topUp", "Fill a signer up from the treasury", 409)
	topUp.DefaultStatus = http.StatusAccepted
	rest.Register(s.Server, topUp, s.topUp)
	s.twoAnswers(topUp.Path, "The signer has enough: nothing is sent, and the members of the transaction are empty.", "The intent that fills the signer up.")
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/pools", "pools", "The pools of signers"), s.pools)
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/fees", "fees", "What fees cost now"), s.fees)
	reload := s.Operation(access.RoleAdmin, http.MethodPost, "/v1/reload", "reload", "Read the keys and pools of the settings again", 409)
	reload.Description = "A signer whose key left the settings gets nothing new; what it has signed is followed."
	rest.Register(s.Server, reload, func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		if s.Reload == nil {
			return nil, txmgr.ErrNotPossible
		}
		return nil, s.Reload(ctx)
	})
	kill := s.Operation(access.RoleAdmin, http.MethodPost, "/v1/kill-switch", "kill", "Stop everything, a chain, a pool or a signer; the manager still follows what is signed")
	rest.Register(s.Server, kill, func(ctx context.Context, in *killInput) (*killsOut, error) {
		if err := s.Manager.Kill(ctx, in.Body.Scope, caller(ctx).Name, in.Body.Reason, in.Body.On); err != nil {
			return nil, err
		}
		return s.switches(ctx)
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/kill-switch", "kills", "The switches that are on"), func(ctx context.Context, _ *struct{}) (*killsOut, error) { return s.switches(ctx) })
}

// changed makes the answer to a change: the signer as it is afterwards.
func (s *Server) changed(ctx context.Context) func(*txmgr.Lane, error) (*rest.Out[Signer], error) {
	return func(l *txmgr.Lane, err error) (*rest.Out[Signer], error) {
		if err != nil {
			return nil, err
		}
		kills, err := s.Manager.Kills(ctx)
		if err != nil {
			return nil, err
		}
		return &rest.Out[Signer]{Body: s.viewSigner(l, kills)}, nil
	}
}

func (s *Server) switches(ctx context.Context) (*killsOut, error) {
	on, err := s.Manager.Kills(ctx)
	out := &killsOut{}
	out.Body.Switches = on
	return out, err
}

func (s *Server) topUp(ctx context.Context, in *SignerPath) (*one, error) {
	if s.TopUp == nil {
		return nil, txmgr.ErrNotPossible
	}
	intent, err := s.TopUp(ctx, in.chain(), in.Address)
	if err != nil {
		return nil, err
	}
	if intent == nil {
		return &one{Status: http.StatusOK}, nil
	}
	return &one{Status: http.StatusAccepted, Body: viewIntent(intent)}, nil
}

func (s *Server) pools(ctx context.Context, _ *struct{}) (*poolsOut, error) {
	lanes, err := s.Manager.Signers(ctx, "")
	if err != nil {
		return nil, err
	}
	out := &poolsOut{}
	out.Body.Pools = []Pool{}
	for _, l := range lanes {
		for _, name := range l.Pools {
			i := slices.IndexFunc(out.Body.Pools, func(p Pool) bool { return p.Chain == l.Chain && p.Name == name })
			if i < 0 {
				i = len(out.Body.Pools)
				out.Body.Pools = append(out.Body.Pools, Pool{Chain: l.Chain, Name: name})
			}
			out.Body.Pools[i].Signers = append(out.Body.Pools[i].Signers, l.Signer)
		}
	}
	return out, nil
}

func (s *Server) fees(ctx context.Context, in *struct {
	Chain string `query:"chain" required:"true" maxLength:"64"`
},
) (*feesOut, error) {
	market, err := s.Manager.Fees(ctx, chainName(in.Chain))
	if err != nil {
		return nil, err
	}
	out := &feesOut{}
	out.Body.Chain, out.Body.BaseFee, out.Body.At, out.Body.Speeds = chainName(in.Chain), quantity(market.BaseFee), moment(market.At), map[string]feeView{}
	for speed, f := range market.Tips {
		out.Body.Speeds[speed] = feeView{MaxFeePerGas: quantity(f.Max), MaxPriorityFeePerGas: quantity(f.Tip)}
	}
	return out, nil
}

type keysOut struct {
	Body struct {
		Keys []access.Key `json:"keys" nullable:"false"`
	}
}

type policiesOut struct {
	Body struct {
		Policies []policy.Policy `json:"policies" nullable:"false"`
	}
}

// full is a list that JSON has as one, also if it is empty.
func full[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Budget is what a day's budget of a policy is used for.
type Budget struct {
	Policy  string    `json:"policy"`
	Tenant  string    `json:"tenant,omitempty"`
	Actor   string    `json:"actor,omitempty" doc:"None: the budget is the tenant's."`
	Limit   *Quantity `json:"limit"`
	Held    *Quantity `json:"held" doc:"For transactions that have no fate yet, at the highest price that they can reach."`
	Settled *Quantity `json:"settled" doc:"What those with a fate have cost."`
}

type budgetsOut struct {
	Body struct {
		Day     string   `json:"day" doc:"In UTC, such as 2026-01-31."`
		Budgets []Budget `json:"budgets" doc:"Those that were used that day; a maximum of 500."`
	}
}

// IDPath is the id of what an operation is about.
type IDPath struct {
	ID string `path:"id" maxLength:"80"`
}

// accessRoutes serves keys and policies. Both are an operator's, of no tenant.
func (s *Server) accessRoutes() {
	create := s.Operation(access.RoleAdmin, http.MethodPost, "/v1/api-keys", "createKey", "Make an API key; its token is shown this once")
	create.DefaultStatus = http.StatusCreated
	rest.Register(s.Server, create, func(ctx context.Context, in *struct {
		Body struct {
			Tenant   string      `json:"tenant,omitempty" maxLength:"64" doc:"Whose transactions it sees; none: all tenants'."`
			Role     access.Role `json:"role" enum:"read,send,admin"`
			Label    string      `json:"label,omitempty" maxLength:"200"`
			Networks []string    `json:"networks,omitempty" maxItems:"100" doc:"From where it may be used: networks such as 203.0.113.0/24, and addresses. None: from everywhere."`
		}
	},
	) (*rest.Out[access.Key], error) {
		key, token, err := s.Keys.Create(ctx, in.Body.Tenant, in.Body.Role, in.Body.Label, in.Body.Networks...)
		key.Token = token.Reveal()
		return rest.Answered(key, err)
	})
	rest.Register(s.Server, s.Operation(access.RoleAdmin, http.MethodGet, "/v1/api-keys", "keys", "The API keys, without their tokens"), func(ctx context.Context, _ *struct{}) (*keysOut, error) {
		list, err := s.Keys.List(ctx)
		out := &keysOut{}
		out.Body.Keys = full(list)
		return out, err
	})
	revoke := s.Operation(access.RoleAdmin, http.MethodDelete, "/v1/api-keys/{id}", "revokeKey", "End an API key", 404)
	rest.Register(s.Server, revoke, func(ctx context.Context, in *IDPath) (*struct{}, error) {
		return nil, s.Keys.Revoke(ctx, in.ID)
	})

	made := s.Operation(access.RoleAdmin, http.MethodPost, "/v1/policies", "createPolicy", "Make a policy")
	made.DefaultStatus = http.StatusCreated
	rest.Register(s.Server, made, func(ctx context.Context, in *struct{ Body policy.Policy }) (*rest.Out[policy.Policy], error) {
		return s.putPolicy(ctx, "", in.Body)
	})
	rest.Register(s.Server, s.Operation(access.RoleAdmin, http.MethodPut, "/v1/policies/{id}", "putPolicy", "Change a policy", 404), func(ctx context.Context, in *struct {
		IDPath
		Body policy.Policy
	},
	) (*rest.Out[policy.Policy], error) {
		return s.putPolicy(ctx, in.ID, in.Body)
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/policies", "policies", "The policies that the caller is under"), func(ctx context.Context, _ *struct{}) (*policiesOut, error) {
		list, err := s.Policies.List(ctx)
		out := &policiesOut{}
		tenant := caller(ctx).Tenant
		out.Body.Policies = full(slices.DeleteFunc(list, func(p policy.Policy) bool { return tenant != "" && p.Tenant != "" && p.Tenant != tenant }))
		return out, err
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/budgets", "budgets", "What is left of today's budgets"), func(ctx context.Context, _ *struct{}) (*budgetsOut, error) {
		day, list, err := s.Policies.Budgets(ctx, caller(ctx).Tenant)
		out := &budgetsOut{}
		out.Body.Day, out.Body.Budgets = day, make([]Budget, 0, len(list))
		for _, b := range list {
			out.Body.Budgets = append(out.Body.Budgets, Budget{Policy: b.Policy, Tenant: b.Tenant, Actor: b.Actor, Limit: quantity(b.Limit), Held: quantity(b.Held), Settled: quantity(b.Settled)})
		}
		return out, err
	})
	rest.Register(s.Server, s.Operation(access.RoleAdmin, http.MethodDelete, "/v1/policies/{id}", "deletePolicy", "Remove a policy", 404), func(ctx context.Context, in *IDPath) (*struct{}, error) {
		return nil, s.Policies.Delete(ctx, in.ID)
	})
}

func (s *Server) putPolicy(ctx context.Context, id string, body policy.Policy) (*rest.Out[policy.Policy], error) {
	if err := s.exist(body.Rules); err != nil {
		return nil, err
	}
	body.ID = id
	return rest.Answered(s.Policies.Put(ctx, body))
}

// exist refuses rules that name a chain or an account that there is not: such a rule protects nobody, or stops everybody. Tenants are
// not looked for, since a policy is best made before its tenant has a key.
func (s *Server) exist(rules policy.Rules) error {
	for i, chain := range rules.Chains {
		rules.Chains[i] = chainName(chain)
		if _, err := s.Manager.Chain(rules.Chains[i]); err != nil {
			return err
		}
	}
	for i, receiver := range rules.Receivers {
		if strings.EqualFold(receiver, policy.Create) {
			continue
		}
		if _, err := s.Manager.Account("", receiver); err != nil {
			return &txmgr.InvalidError{Field: fmt.Sprintf("rules.receivers[%d]", i), Problem: err.Error()}
		}
	}
	return nil
}

type hooksOut struct {
	Body struct {
		Webhooks []*webhooks.Webhook `json:"webhooks" nullable:"false"`
	}
}

type deliveriesOut struct {
	Body struct {
		Deliveries []*webhooks.Delivery `json:"deliveries" nullable:"false"`
	}
}

// shown is the answer to who has just made a secret.
func shown(h *webhooks.Webhook, err error) (*rest.Out[*webhooks.Webhook], error) {
	if err == nil {
		h.Shown = h.Secret.Reveal()
	}
	return rest.Answered(h, err)
}

// hooks serves webhooks. They belong to the caller's tenant; an administrator of no tenant
// sees all.
func (s *Server) hooks() {
	create := s.Operation(access.RoleSend, http.MethodPost, "/v1/webhooks", "createWebhook", "Register a URL; its secret is shown this once")
	create.DefaultStatus = http.StatusCreated
	rest.Register(s.Server, create, func(ctx context.Context, in *struct {
		Body struct {
			URL    string   `json:"url" maxLength:"2048"`
			Events []string `json:"events,omitempty" maxItems:"50"`
		}
	},
	) (*rest.Out[*webhooks.Webhook], error) {
		return shown(s.Webhooks.Create(ctx, caller(ctx).Tenant, in.Body.URL, in.Body.Events))
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/webhooks", "webhooks", "The webhooks"), func(ctx context.Context, _ *struct{}) (*hooksOut, error) {
		list, err := s.Webhooks.List(ctx, caller(ctx).Tenant)
		out := &hooksOut{}
		out.Body.Webhooks = full(list)
		return out, err
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/webhooks/{id}", "webhook", "One webhook", 404), func(ctx context.Context, in *IDPath) (*rest.Out[*webhooks.Webhook], error) {
		return rest.Answered(s.Webhooks.Get(ctx, caller(ctx).Tenant, in.ID))
	})
	rest.Register(s.Server, s.Operation(access.RoleSend, http.MethodPatch, "/v1/webhooks/{id}", "updateWebhook", "Change a webhook", 404), func(ctx context.Context, in *struct {
		IDPath
		Body struct {
			URL     *string   `json:"url,omitempty" maxLength:"2048"`
			Events  *[]string `json:"events,omitempty" maxItems:"50"`
			Enabled *bool     `json:"enabled,omitempty"`
		}
	},
	) (*rest.Out[*webhooks.Webhook], error) {
		return rest.Answered(s.Webhooks.Update(ctx, caller(ctx).Tenant, in.ID, webhooks.Change{URL: in.Body.URL, Events: in.Body.Events, Enabled: in.Body.Enabled}))
	})
	rest.Register(s.Server, s.Operation(access.RoleSend, http.MethodPost, "/v1/webhooks/{id}/rotate", "rotateWebhook", "Make a new secret; for some time the old one signs as well", 404), func(ctx context.Context, in *struct {
		IDPath
		Body *struct {
			Overlap string `json:"overlap,omitempty" doc:"How long the old secret signs as well; 24h if not given." examples:"24h"`
		} `required:"false"`
	},
	) (*rest.Out[*webhooks.Webhook], error) {
		overlap := 24 * time.Hour
		if in.Body != nil && in.Body.Overlap != "" {
			var err error
			if overlap, err = time.ParseDuration(in.Body.Overlap); err != nil || overlap < 0 || overlap > 30*24*time.Hour {
				return nil, &txmgr.InvalidError{Field: "overlap", Problem: "want a duration up to 720h"}
			}
		}
		return shown(s.Webhooks.Rotate(ctx, caller(ctx).Tenant, in.ID, overlap))
	})
	rest.Register(s.Server, s.Operation(access.RoleSend, http.MethodDelete, "/v1/webhooks/{id}", "deleteWebhook", "Remove a webhook with its deliveries", 404), func(ctx context.Context, in *IDPath) (*struct{}, error) {
		return nil, s.Webhooks.Delete(ctx, caller(ctx).Tenant, in.ID)
	})
	rest.Register(s.Server, s.Operation(access.RoleRead, http.MethodGet, "/v1/webhooks/{id}/deliveries", "deliveries", "Deliveries of a webhook, newest first", 404), func(ctx context.Context, in *struct {
		IDPath
		Status string `query:"status" enum:"pending,delivered,dead"`
		Cursor string `query:"cursor" maxLength:"80" doc:"The id of the last delivery of the page before."`
		Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	},
	) (*deliveriesOut, error) {
		found, err := s.Webhooks.Deliveries(ctx, caller(ctx).Tenant, in.ID, in.Status, in.Cursor, in.Limit)
		out := &deliveriesOut{}
		out.Body.Deliveries = full(found)
		return out, err
	})
	rest.Register(s.Server, s.Operation(access.RoleSend, http.MethodPost, "/v1/webhooks/{id}/deliveries/{delivery}/redeliver", "redeliver", "Send a delivery again that ended", 404), func(ctx context.Context, in *struct {
		IDPath
		Delivery string `path:"delivery" maxLength:"120"`
	},
	) (*rest.Out[*webhooks.Delivery], error) {
		return rest.Answered(s.Webhooks.Redeliver(ctx, caller(ctx).Tenant, in.ID, in.Delivery))
	})
}
