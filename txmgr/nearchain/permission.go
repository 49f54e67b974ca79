package nearchain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/internal/near"
	"lockstep/txmgr"
)

var _ txmgr.Restricted = (*Chain)(nil)

// power is what a key may sign, as a node said some time ago.
type power struct {
	permission near.Permission
	asked      time.Time
}

// powerAge is for how long an answer about a key's permission is taken. Nobody changes the permission of a key: it is
// deleted, and another one is added.
const powerAge = time.Minute

// MaySign tells what a key may not sign. A function-call key signs one call of a method of its contract without a deposit.
func (c *Chain) MaySign(ctx context.Context, name string, call txmgr.Call) (why string, err error) {
	s, err := keyOf(name)
	if err != nil {
		return "", err
	}
	permission, err := c.permission(ctx, s)
	if errors.Is(err, errNoKey) {
		return fmt.Sprintf("%s has no access key %s", s.account, s.key), nil
	}
	if err != nil {
		return "", err
	}
	limited, ok := permission.(near.CallPermission)
	if !ok {
		return "", nil
	}
	list, err := actionsOf(call)
	if err != nil {
		return err.Error(), nil
	}
	return beyond(limited, call.To, list), nil
}

// beyond tells why a transaction is more than a key's permission, "" if it is not.
func beyond(p near.CallPermission, to string, list []near.Action) string {
	if len(list) != 1 {
		return "a function-call key signs one call"
	}
	call, ok := list[0].(near.FunctionCall)
	switch {
	case !ok:
		return "a function-call key signs calls alone"
	case to != p.Receiver:
		return fmt.Sprintf("the key is for calls of %s", p.Receiver)
	case !call.Deposit.IsZero():
		return "a function-call key signs no deposits"
	case len(p.Methods) > 0 && !slices.Contains(p.Methods, call.Method):
		return fmt.Sprintf("the key is for the methods %q", p.Methods)
	}
	return ""
}

func (c *Chain) permission(ctx context.Context, s signer) (near.Permission, error) {
	name := s.String()
	c.mu.Lock()
	known, ok := c.powers[name]
	c.mu.Unlock()
	if ok && time.Since(known.asked) < powerAge {
		return known.permission, nil
	}
	asked := time.Now()
	k, err := c.accessKey(ctx, s, final)
	if err != nil {
		return nil, err
	}
	permission, err := near.ParsePermission(k.Permission)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.powers == nil {
		c.powers = map[string]power{}
	}
	c.powers[name] = power{permission, asked} // there are as many as keys
	return permission, nil
}
