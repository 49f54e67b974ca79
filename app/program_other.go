//go:build !linux

package app

// forgetProgram does nothing here.
func forgetProgram() error { return nil }
