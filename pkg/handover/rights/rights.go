//go:build unix

// Package rights parses the control messages with which a unix socket passes open files. It is apart from package
// handover because the init of cages uses it and must stay without package net.
package rights

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Parse returns the descriptors in the control messages of one packet. They belong to the caller, also those that come
// with an error.
func Parse(oob []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("control message: %w", err)
	}
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fds, fmt.Errorf("descriptors: %w", err)
		}
		fds = append(fds, got...)
	}
	return fds, nil
}
