//go:build !linux

package rpc

import "net"

// look accepts every process, because the socket's mode 0600 excludes other users and these systems have no cages.
func look(*net.UnixConn) (standing, error) { return own, nil }
