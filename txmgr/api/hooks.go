package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"lockstep/internal/access"
	"lockstep/internal/secret"
	"lockstep/txmgr"
	"lockstep/txmgr/webhooks"
)

// Webhook is a URL that is told what happens.
type Webhook struct {
	ID        string   `json:"id"`
	URL       string   `json:"url"`
	Events    []string `json:"events" doc:"Kinds of events, such as tx.confirmed or tx.*; none is all."`
	Enabled   bool     `json:"enabled"`
	CreatedAt *Moment  `json:"createdAt,omitempty"`
	Secret    string   `json:"secret,omitempty" doc:"Of the signatures; shown when it is made, and never again."`
	OldUntil  *Moment  `json:"oldSecretUntil,omitempty" doc:"Until when the secret before this one signs as well."`
}

// Delivery is one event for one webhook.
type Delivery struct {
	ID        string          `json:"id" doc:"The webhook-id header."`
	Subject   string          `json:"subject"`
	Sequence  int64           `json:"sequence"`
	Type      string          `json:"type"`
	Status    string          `json:"status" enum:"pending,delivered,dead"`
	Attempts  int             `json:"attempts"`
	Answer    int             `json:"answer,omitempty" doc:"HTTP status of the last answer."`
	Error     string          `json:"error,omitempty"`
	NextAt    *Moment         `json:"nextAt,omitempty"`
	CreatedAt *Moment         `json:"createdAt,omitempty"`
	DoneAt    *Moment         `json:"doneAt,omitempty"`
	Body      json.RawMessage `json:"body,omitempty"`
}

type hookOut struct{ Body Webhook }

type hooksOut struct {
	Body struct {
		Webhooks []Webhook `json:"webhooks"`
	}
}

type deliveryOut struct{ Body Delivery }

type deliveriesOut struct {
	Body struct {
		Deliveries []Delivery `json:"deliveries"`
	}
}

func hookAnswer(h *webhooks.Hook, shown secret.String, err error) (*hookOut, error) {
	if err != nil {
		return nil, err
	}
	return &hookOut{Body: viewHook(h, shown)}, nil
}

func viewHook(h *webhooks.Hook, shown secret.String) Webhook {
	events := h.Events
	if events == nil {
		events = []string{}
	}
	return Webhook{ID: h.ID, URL: h.URL, Events: events, Enabled: h.Enabled, CreatedAt: moment(h.Created), Secret: shown.Reveal(), OldUntil: moment(h.OldUntil)}
}

func viewDelivery(d *webhooks.Delivery) Delivery {
	v := Delivery{
		ID: d.ID, Subject: d.Subject, Sequence: d.Sequence, Type: d.Kind, Status: d.Status, Attempts: d.Attempts, Answer: d.Answer, Error: d.Error,
		CreatedAt: moment(d.Created), DoneAt: moment(d.Done), Body: d.Body,
	}
	if d.Status == webhooks.StatusPending {
		v.NextAt = moment(d.Next)
	}
	return v
}

// hooks serves webhooks. They belong to the caller's tenant; an administrator of no tenant
// sees all.
func (s *Server) hooks() {
	create := operation(access.RoleSend, http.MethodPost, "/v1/webhooks", "createWebhook", "Register a URL; its secret is shown this once")
	create.DefaultStatus = http.StatusCreated
	register(s, create, func(ctx context.Context, in *struct {
		Body struct {
			URL    string   `json:"url" maxLength:"2048"`
			Events []string `json:"events,omitempty" maxItems:"50"`
		}
	},
	) (*hookOut, error) {
		return hookAnswer(s.Webhooks.Create(ctx, caller(ctx).Tenant, in.Body.URL, in.Body.Events))
	})
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/webhooks", "webhooks", "The webhooks"), func(ctx context.Context, _ *struct{}) (*hooksOut, error) {
		list, err := s.Webhooks.List(ctx, caller(ctx).Tenant)
		out := &hooksOut{}
		out.Body.Webhooks = make([]Webhook, 0, len(list))
		for _, h := range list {
			out.Body.Webhooks = append(out.Body.Webhooks, viewHook(h, ""))
		}
		return out, err
	})
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/webhooks/{id}", "webhook", "One webhook", 404), func(ctx context.Context, in *IDPath) (*hookOut, error) {
		h, err := s.Webhooks.Get(ctx, caller(ctx).Tenant, in.ID)
		return hookAnswer(h, "", err)
	})
	register(s, operation(access.RoleSend, http.MethodPatch, "/v1/webhooks/{id}", "updateWebhook", "Change a webhook", 404), func(ctx context.Context, in *struct {
		IDPath
		Body struct {
			URL     *string   `json:"url,omitempty" maxLength:"2048"`
			Events  *[]string `json:"events,omitempty" maxItems:"50"`
			Enabled *bool     `json:"enabled,omitempty"`
		}
	},
	) (*hookOut, error) {
		h, err := s.Webhooks.Update(ctx, caller(ctx).Tenant, in.ID, webhooks.Change{URL: in.Body.URL, Events: in.Body.Events, Enabled: in.Body.Enabled})
		return hookAnswer(h, "", err)
	})
	register(s, operation(access.RoleSend, http.MethodPost, "/v1/webhooks/{id}/rotate", "rotateWebhook", "Make a new secret; for some time the old one signs as well", 404), func(ctx context.Context, in *struct {
		IDPath
		Body *struct {
			Overlap string `json:"overlap,omitempty" doc:"How long the old secret signs as well; 24h if not given." examples:"24h"`
		} `required:"false"`
	},
	) (*hookOut, error) {
		overlap := 24 * time.Hour
		if in.Body != nil && in.Body.Overlap != "" {
			var err error
			if overlap, err = time.ParseDuration(in.Body.Overlap); err != nil || overlap < 0 || overlap > 30*24*time.Hour {
				return nil, &txmgr.InvalidError{Field: "overlap", Problem: "want a duration up to 720h"}
			}
		}
		return hookAnswer(s.Webhooks.Rotate(ctx, caller(ctx).Tenant, in.ID, overlap))
	})
	register(s, operation(access.RoleSend, http.MethodDelete, "/v1/webhooks/{id}", "deleteWebhook", "Remove a webhook with its deliveries", 404), func(ctx context.Context, in *IDPath) (*struct{}, error) {
		return nil, s.Webhooks.Delete(ctx, caller(ctx).Tenant, in.ID)
	})
	register(s, operation(access.RoleRead, http.MethodGet, "/v1/webhooks/{id}/deliveries", "deliveries", "Deliveries of a webhook, newest first", 404), func(ctx context.Context, in *struct {
		IDPath
		Status string `query:"status" enum:"pending,delivered,dead"`
		Cursor string `query:"cursor" maxLength:"80" doc:"The id of the last delivery of the page before."`
		Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	},
	) (*deliveriesOut, error) {
		found, err := s.Webhooks.Deliveries(ctx, caller(ctx).Tenant, in.ID, in.Status, in.Cursor, in.Limit)
		out := &deliveriesOut{}
		out.Body.Deliveries = make([]Delivery, 0, len(found))
		for _, d := range found {
			out.Body.Deliveries = append(out.Body.Deliveries, viewDelivery(d))
		}
		return out, err
	})
	register(s, operation(access.RoleSend, http.MethodPost, "/v1/webhooks/{id}/deliveries/{delivery}/redeliver", "redeliver", "Send a delivery again that ended", 404), func(ctx context.Context, in *struct {
		IDPath
		Delivery string `path:"delivery" maxLength:"120"`
	},
	) (*deliveryOut, error) {
		d, err := s.Webhooks.Redeliver(ctx, caller(ctx).Tenant, in.ID, in.Delivery)
		if err != nil {
			return nil, err
		}
		return &deliveryOut{Body: viewDelivery(d)}, nil
	})
}
