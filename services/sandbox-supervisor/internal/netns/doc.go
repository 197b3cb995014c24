// Package netns is the network inside a cage: a loopback interface, made-up addresses for the names that the policy
// allows, and the sockets at which the cage's guard waits outside of it.
//
// [Setup] runs in the cage's init while it has its capabilities, and leaves no running part behind: the sockets it
// returns are passed out (package egress serves them), and the kernel refuses all other traffic, because there is no
// other interface and no other route.
//
// The init is a small static binary; this package keeps it small by needing neither package net nor a library for
// netlink.
package netns
