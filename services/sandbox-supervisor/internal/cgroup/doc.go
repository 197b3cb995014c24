// Package cgroup puts each command with its descendants into its own cgroup, so that it can be killed at once, and
// limits the commands of a cage.
//
// Killing needs no controller: a writable cgroup2 hierarchy with cgroup.kill suffices, also the "unified" one beside
// version 1. A [Tree] is the folder of one supervisor, named after its data directory, with a [Leaf] per command.
//
// Limits need the controllers of memory, pids and cpu, of version 1 or of cgroup2: [Cages] finds the hierarchy of each.
// The commands of a [Cage] share its limits; each [Command] has cgroups below the cage's, whose counters attribute a
// limit to a command. The whole command is then killed, even if the kernel has already killed one of its processes.
//
// The next supervisor with the same name kills and removes the remains of a killed one.
package cgroup
