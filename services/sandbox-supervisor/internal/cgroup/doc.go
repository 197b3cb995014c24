// Package cgroup holds a command and everything it starts in a cgroup of its own, so that it can be killed at once, and
// the commands of a cage within limits.
//
// To kill needs no controller: a writable cgroup2 hierarchy that knows cgroup.kill is enough, also the "unified" one
// beside version 1. A [Tree] is the folder of one supervisor, named after its data directory, with a [Leaf] per
// command.
//
// Limits need the controllers of memory, pids and cpu, of version 1 or of cgroup2: [Cages] finds the hierarchy of each.
// The commands of a [Cage] share its limits; each [Command] has cgroups below the cage's, whose counters attribute a
// limit to a command, which is killed as a whole for it. The kernel itself may have killed one of its processes before.
//
// The remains of a killed supervisor are killed and removed by the next one of the same name.
package cgroup
