//go:build linux

package main

import "golang.org/x/sys/unix"

// Calls that newer architectures do not have.
const (
	sysChmod = unix.SYS_CHMOD
	sysOpen  = unix.SYS_OPEN
	sysCreat = unix.SYS_CREAT
	sysMknod = unix.SYS_MKNOD
	sysMkdir = unix.SYS_MKDIR
)
