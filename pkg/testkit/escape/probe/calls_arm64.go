//go:build linux

package main

// Calls that this architecture does not have, with invalid numbers.
const (
	sysChmod = 0xffff
	sysOpen  = 0xffff
	sysCreat = 0xffff
	sysMknod = 0xffff
	sysMkdir = 0xffff
)
