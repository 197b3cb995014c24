// Package cgroup holds a command and everything it starts in a cgroup of its own, so that it can be killed at once, and the
// commands of a cage within limits.
//
// To kill needs no controller: a writable cgroup2 hierarchy that knows cgroup.kill is enough, also the "unified" one beside
// version 1. A [Tree] is the folder of one supervisor, named after its data directory, with a [Leaf] per command.
//
// To limit needs the controllers of memory, pids and cpu, of version 1 or of cgroup2: [Cages] finds where each of them is. What
// a [Cage] is limited to, its commands share; each [Command] has cgroups below the cage's, whose counters tell which command
// reached a limit, and is killed as a whole for it. The kernel itself may have killed one process of it before.
//
// What a killed supervisor left is killed and removed by the next one of the same name.
package cgroup
