package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/txmgr"
	"lockstep/txmgr/policy"
)

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
