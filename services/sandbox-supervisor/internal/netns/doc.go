// Package netns is the network inside a cage: a loopback interface, synthetic addresses for the names that the policy
// allows, and the sockets of the cage's gate outside of it.
//
// [Setup] runs in the cage's init while it has its capabilities, and leaves no process or goroutine behind: the sockets
// it returns are sent out (package egress serves them), and the kernel refuses all other traffic, because there is no
// other interface and no other route.
//
// The init is a small static binary, so this package uses neither package net nor a netlink library.
package netns
