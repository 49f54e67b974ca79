package rpc

import "context"

// Limiter decides whether an address may call a method now. Of IPv6 it is asked for a whole /64, as capacity.ClientOf
// writes it. It must answer quickly, and allow the call rather than fail.
type Limiter interface {
	Allow(ctx context.Context, ip, method string) bool
}

// Unlimited returns a Limiter that allows every call.
func Unlimited() Limiter { return unlimited{} }

type unlimited struct{}

func (unlimited) Allow(context.Context, string, string) bool { return true }

// TierLimit returns how many calls of a method of the tier one address may make per window. Tier 0 has the
// methods that no other tier has.
func (c *RateLimitConfig) TierLimit(tier int) int {
	switch tier {
	case 1:
		return c.Tier1
	case 2:
		return c.Tier2
	case 3:
		return c.Tier3
	}
	return c.Default
}

// MethodLimit returns how many calls of a method of the tier one address may make per window: the limit that the
// method has for itself, or else that of its tier.
func (c *RateLimitConfig) MethodLimit(method string, tier int) int {
	if limit, ok := c.Methods.of(method); ok {
		return limit
	}
	return c.TierLimit(tier)
}
