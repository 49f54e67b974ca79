// Package watchers tests `lockstep watch` as a fleet of real processes that are killed, stopped and replaced. The judge is one
// sequential scan of the chain.
package watchers
