// Package cgroup holds a command and everything it starts in a cgroup of its own, so that it can be killed at once.
//
// It needs no controller: a writable cgroup2 hierarchy that knows cgroup.kill is enough, also the "unified" one beside
// version 1. A [Tree] is the folder of one supervisor, named after its data directory, with a [Leaf] per command. What a
// killed supervisor left in it is killed and removed by the next one's [Open].
package cgroup
