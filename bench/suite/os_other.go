//go:build !linux

package main

import (
	"context"
	"errors"
	"syscall"
)

func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func (ls *listeners) listen(context.Context, string, int, int) error { return errors.ErrUnsupported }
