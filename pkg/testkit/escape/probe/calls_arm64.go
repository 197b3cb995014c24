//go:build linux

package main

// Calls that this machine does not have: no number is theirs.
const (
	sysChmod = 0xffff
	sysOpen  = 0xffff
	sysCreat = 0xffff
	sysMknod = 0xffff
	sysMkdir = 0xffff
)
