//go:build !linux

package fleet

import "syscall"

func withParent() *syscall.SysProcAttr { return nil }
