// Package netns is the network inside a cage: a loopback interface, made-up addresses for the names that the policy allows,
// and the sockets at which whoever guards the cage waits outside of it.
//
// [Setup] runs in the cage's init while it has its capabilities. Nothing of it runs on afterwards: the sockets it returns are
// passed out (package egress serves them), and the kernel refuses whatever goes elsewhere, because there is no other interface
// and no other route.
//
// The init is a small static binary; this package keeps it small by needing neither package net nor a library for netlink.
package netns
