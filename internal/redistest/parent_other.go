//go:build !linux

package redistest

import "syscall"

func withParent() *syscall.SysProcAttr { return nil }
