package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"lockstep/internal/access"
	"lockstep/txmgr"
	"lockstep/txmgr/policy"
)

// Key is an API key without its secret.
type Key struct {
	ID        string      `json:"id"`
	Tenant    string      `json:"tenant,omitempty"`
	Role      access.Role `json:"role"`
	Label     string      `json:"label,omitempty"`
	Networks  []string    `json:"networks,omitempty" doc:"From where it may be used; none: from everywhere."`
	CreatedAt *Moment     `json:"createdAt,omitempty"`
	LastUsed  *Moment     `json:"lastUsedAt,omitempty"`
	RevokedAt *Moment     `json:"revokedAt,omitempty"`
	Token     string      `json:"token,omitempty" doc:"The key itself; shown when it is made, and never again."`
}

func viewKey(k access.Key) Key {
	return Key{ID: k.ID, Tenant: k.Tenant, Role: k.Role, Label: k.Label, Networks: k.Networks, CreatedAt: moment(k.Created), LastUsed: moment(k.LastUsed), RevokedAt: moment(k.Revoked)}
}

type keyOut struct{ Body Key }

type keysOut struct {
	Body struct {
		Keys []Key `json:"keys"`
	}
}

// Policy is what requests may do.
type Policy struct {
	ID        string       `json:"id,omitempty" readOnly:"true"`
	Tenant    string       `json:"tenant,omitempty" maxLength:"64" doc:"None: all tenants."`
	Disabled  bool         `json:"disabled,omitempty"`
	Rules     policy.Rules `json:"rules"`
	CreatedAt *Moment      `json:"createdAt,omitempty" readOnly:"true"`
	UpdatedAt *Moment      `json:"updatedAt,omitempty" readOnly:"true"`
}

type policyOut struct{ Body Policy }

type policiesOut struct {
	Body struct {
		Policies []Policy `json:"policies"`
	}
}

func viewPolicy(p policy.Policy) Policy {
	return Policy{ID: p.ID, Tenant: p.Tenant, Disabled: !p.Enabled, Rules: p.Rules, CreatedAt: moment(p.Created), UpdatedAt: moment(p.Updated)}
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
	create := operation(access.RoleAdmin, http.MethodPost, "/v1/api-keys", "createKey", "Make an API key; its token is shown this once")
	create.DefaultStatus = http.StatusCreated
	register(s, create, func(ctx context.Context, in *struct {
		Body struct {
			Tenant   string      `json:"tenant,omitempty" maxLength:"64" doc:"Whose transactions it sees; none: all tenants'."`
			Role     access.Role `json:"role" enum:"read,send,admin"`
			Label    string      `json:"label,omitempty" maxLength:"200"`
			Networks []string    `json:"networks,omitempty" maxItems:"100" doc:"From where it may be used: networks such as 203.0.113.0/24, and addresses. None: from everywhere."`
		}
	},
	) (*keyOut, error) {
		key, token, err := s.Keys.Create(ctx, in.Body.Tenant, in.Body.Role, in.Body.Label, in.Body.Networks...)
		if err != nil {
			return nil, err
		}
		out := &keyOut{Body: viewKey(key)}
		out.Body.Token = token.Reveal()
		return out, nil
	})
	register(s, operation(access.RoleAdmin, http.MethodGet, "/v1/api-keys", "keys", "The API keys, without their tokens"), func(ctx context.Context, _ *struct{}) (*keysOut, error) {
		list, err := s.Keys.List(ctx)
		out := &keysOut{}
		out.Body.Keys = make([]Key, 0, len(list))
		for _, k := range list {
			out.Body.Keys = append(out.Body.Keys, viewKey(k))
		}
		return out, err
	})
	revoke := operation(access.RoleAdmin, http.MethodDelete, "/v1/api-keys/{id}", "revokeKey", "End an API key", 404)
	register(s, revoke, func(ctx context.Context, in *IDPath) (*struct{}, error) {
		return nil, s.Keys.Revoke(ctx, in.ID)
	})

	made := operation(access.RoleAdmin, http.MethodPost, "/v1/policies", "createPolicy", "Make a policy")
	made.DefaultStatus = http.StatusCreated
	register(s, made, func(ctx context.Context, in *struct{ Body Policy }) (*policyOut, error) {
		return s.putPolicy(ctx, "", in.Body)
	})
	register(s, operation(access.RoleAdmin, http.MethodPut, "/v1/policies/{id}", "putPolicy", "Change a policy", 404), func(ctx context.Context, in *struct {
		IDPath
		Body Policy
	},
	) (*policyOut, error) {
		return s.putPolicy(ctx, in.ID, in.Body)
	})
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/policies", "policies", "The policies that the caller is under"), func(ctx context.Context, _ *struct{}) (*policiesOut, error) {
		list, err := s.Policies.List(ctx)
		out := &policiesOut{}
		out.Body.Policies = []Policy{}
		tenant := caller(ctx).Tenant
		for _, p := range list {
			if tenant == "" || p.Tenant == "" || p.Tenant == tenant {
				out.Body.Policies = append(out.Body.Policies, viewPolicy(p))
			}
		}
		return out, err
	})
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/budgets", "budgets", "What is left of today's budgets"), func(ctx context.Context, _ *struct{}) (*budgetsOut, error) {
		day, list, err := s.Policies.Budgets(ctx, caller(ctx).Tenant)
		out := &budgetsOut{}
		out.Body.Day, out.Body.Budgets = day, make([]Budget, 0, len(list))
		for _, b := range list {
			out.Body.Budgets = append(out.Body.Budgets, Budget{Policy: b.Policy, Tenant: b.Tenant, Actor: b.Actor, Limit: quantity(b.Limit), Held: quantity(b.Held), Settled: quantity(b.Settled)})
		}
		return out, err
	})
	register(s, operation(access.RoleAdmin, http.MethodDelete, "/v1/policies/{id}", "deletePolicy", "Remove a policy", 404), func(ctx context.Context, in *IDPath) (*struct{}, error) {
		return nil, s.Policies.Delete(ctx, in.ID)
	})
}

func (s *Server) putPolicy(ctx context.Context, id string, body Policy) (*policyOut, error) {
	if err := s.exist(body.Rules); err != nil {
		return nil, err
	}
	p, err := s.Policies.Put(ctx, policy.Policy{ID: id, Tenant: body.Tenant, Enabled: !body.Disabled, Rules: body.Rules})
	if err != nil {
		return nil, err
	}
	return &policyOut{Body: viewPolicy(p)}, nil
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
