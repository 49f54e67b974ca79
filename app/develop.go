package app

import (
	"context"
	"slices"

	"lockstep/rpc"
)

// What a chain for development asks of its relay.

// withFurther adds the further methods, which take the place of others of the same name.
func (a *App) withFurther(own []rpc.Method) []rpc.Method {
	own = slices.DeleteFunc(own, func(m rpc.Method) bool {
		return slices.ContainsFunc(a.further, func(f rpc.Method) bool { return f.Name == m.Name })
	})
	return append(own, a.further...)
}

// wentBack forgets what a network that has gone back does not know any more. The mirror
// client has forgotten already.
func (a *App) wentBack(block uint64) {
	a.locks.Forget()
	a.pool.Forget()
	a.subscriptions.WentBack(block)
}

// Changed says that the chain was changed by something that the relay did not see: every read
// from now on asks again. That the network has gone back is known when it returns.
func (a *App) Changed(ctx context.Context) error {
	a.mirror.Invalidate()
	_, err := a.mirror.Head(ctx)
	return err
}
