//go:build !linux

package rpc

import "net"

// look takes who opens a socket of mode 0600 for this user: there are no cages here.
func look(*net.UnixConn) (standing, error) { return own, nil }
