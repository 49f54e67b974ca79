package app

import (
	"context"
	"strings"
	"time"
)

// settings are what GET /config and admin_config show, in the shape that established
// relays give it. Secrets are masked by their type.
type settings struct {
	Relay    serviceSettings   `json:"relay"`
	Upstream []serviceSettings `json:"upstreamDependencies"`
}

// serviceSettings are those of one part, by the name of the setting.
type serviceSettings struct {
	Service string            `json:"service,omitempty"`
	Version string            `json:"version,omitempty"` // empty: not known
	Config  map[string]string `json:"config"`
}

// settings returns the settings. Those that begin with the name of something behind the
// relay are shown there.
func (a *App) settings(ctx context.Context) any {
	relay := serviceSettings{Version: a.version, Config: map[string]string{}}
	nodes := serviceSettings{Service: "consensusNode", Version: a.nodeVersion(ctx), Config: map[string]string{}}
	mirror := serviceSettings{Service: "mirrorNode", Config: map[string]string{}}
	for _, s := range a.inEffect().Effective() {
		switch {
		case strings.HasPrefix(s.Name, "SDK_"):
			nodes.Config[s.Name] = s.Value
		case strings.HasPrefix(s.Name, "MIRROR_NODE_"):
			mirror.Config[s.Name] = s.Value
		default:
			relay.Config[s.Name] = s.Value
		}
	}
	return settings{Relay: relay, Upstream: []serviceSettings{nodes, mirror}}
}

// versionTimeout is for the look at the newest block. Tests prolong it.
var versionTimeout = time.Second

// nodeVersion returns the version of the consensus nodes, as the newest block names it;
// empty if the mirror node does not tell at once.
func (a *App) nodeVersion(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	head, err := a.mirror.LatestBlock(ctx)
	if err != nil {
		return ""
	}
	return head.HAPI
}
