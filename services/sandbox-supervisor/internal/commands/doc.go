// Package commands runs in the parent process of commands: the shim or a cage's init. It starts, watches and ends
// commands on requests of its peer over a connection (package frame).
//
// The process must inherit every orphan of its descendants, as a subreaper or as the first of its pid namespace. Then
//
//   - when a command's main process ends, everything it started is killed before the command is reported as exited;
//   - what a command inherits is what was asked for: its three files, its environment, no signal ignored.
//
// The command of a process is found by its cgroup, if the peer can make cgroups, and by its mark (package proc); an
// orphan without either is killed as soon as no running command could be its owner. Usually none of this is needed: one
// system call shows that no children remain.
//
// Goroutines: one reads frames, one per starting command and one per pending connection, one reaps, one forks; a timer
// checks again while a command is ending. They end with the process.
package commands
