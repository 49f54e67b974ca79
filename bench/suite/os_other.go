//go:build !linux

package main

import (
	"context"
	"errors"
)

func (ls *listeners) listen(context.Context, string, int, int) error { return errors.ErrUnsupported }
