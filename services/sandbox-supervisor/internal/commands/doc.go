// Package commands is the owner of commands as a process of its own: the shim is one, a cage's init another. It starts,
// watches and ends commands as its peer asks over a connection (package frame).
//
// The process must inherit every orphan of its descendants, as a subreaper or as the first of its process
// namespace. Then it promises that
//
//   - when a command's main process ends, everything it started is killed before the command is reported as exited;
//   - what a command inherits is what was asked for: its three files, its environment, no signal ignored.
//
// A process's command is known by its cgroup where its peer can make cgroups, and by its mark (package proc); an
// orphan with neither is killed as soon as no running command could be its owner. The usual path needs none of this:
// the process has no children left, and that is one system call.
//
// Goroutines: one reads frames, one per command that is being started and one per connection that is being made, one
// reaps, one forks; a timer looks again while a command is ending. They end with the process.
package commands
