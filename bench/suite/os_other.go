//go:build !linux

package main

import (
	"context"
	"errors"
)

func (ls *listeners) listen(context.Context, string, int, byte) error { return errors.ErrUnsupported }
