// Package sandboxsupervisor starts commands, gives them terminals and limits, and makes sure that nothing they started
// outlives its owner.
//
// A command is asked for on a stream (Exec): the caller names it, then sends input, sizes and signals; the service answers
// that it runs, what it writes as it writes it, and how it ended. The stream is the command's life line: when it ends, for
// whatever reason, the command and everything it started ends too.
//
// A command may also be detached (StartProcess): no stream holds it, it lives until it or its session ends, the end of what it
// writes is kept in memory, and whoever knows its id can attach to it.
//
// On Linux the commands are not this process's children but those of the shim (package shim), a small process that the
// service starts from its own executable and that inherits every orphan. When a command's main process ends, the shim
// kills what it left behind before the end is told. When this process is killed, the shim notices by its socket, kills
// everything and ends. When the shim is killed, this process kills what is left, tells the commands' callers that they are
// lost, and starts another. When both are killed at once, the next start finds and kills the leftovers. Elsewhere commands
// are plain process groups, which promises less (package group).
//
// Every program that runs this service must begin its main function with
//
//	if shim.Invoked() {
//		shim.Main()
//	}
//
// A command of a caged agent runs in a box (package box) that is made of namespaces and owned by an init of its own (command
// cageinit). Which cages there are, who holds them and when they end is package core's.
//
// Goroutines: Run's own; those of the spawner (packages shimhost and group); per command one that watches it, once it is
// given input one that feeds it, and if it is detached one that keeps its output (package core); per Exec stream one that
// takes requests.
package sandboxsupervisor
