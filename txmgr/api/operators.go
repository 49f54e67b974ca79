package api

import (
	"context"
	"net/http"
	"slices"

	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/txmgr"
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
