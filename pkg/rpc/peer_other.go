//go:build !linux

package rpc

import "net"

// look takes any process that opens a socket of mode 0600 for one of this user: these systems have no cages.
func look(*net.UnixConn) (standing, error) { return own, nil }
