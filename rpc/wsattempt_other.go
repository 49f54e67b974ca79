//go:build !unix

package rpc

import "syscall"

// attempt finds no room, so that all is written by a write that may wait.
type attempt struct{}

func (attempt) write(syscall.RawConn, []byte) (n int, err error) { return 0, nil }
