package api

import (
	"context"
	"net/http"
	"time"

	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/txmgr"
	"lockstep/txmgr/webhooks"
)

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
