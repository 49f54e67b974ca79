//go:build !linux

package harness

import "syscall"

func withParent() *syscall.SysProcAttr { return nil }
