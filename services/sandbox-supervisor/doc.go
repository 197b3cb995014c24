// Package sandboxsupervisor starts commands, gives them terminals and limits, and ends their descendants with their
// owner.
//
// A command runs on a stream (Exec): the caller describes it, then sends input, sizes and signals; the service reports
// its start, its output as it is written, and its end. When the stream ends, for any reason, the command and its
// descendants end too.
//
// A command may also be detached (StartProcess): it has no stream, it lives until it or its session ends, the end of
// its output is kept in memory, and clients that know its id can attach to it.
//
// On Linux the commands are children of the shim (package shim), a small process that the service starts from its own
// executable and that inherits every orphan. When a command's main process ends, the shim kills its descendants before
// the end is reported. When this process is killed, the shim detects it by its socket, kills all commands and ends.
// When the shim is killed, this process kills the remaining processes, reports their commands as lost, and starts
// another shim. When both are killed at once, the next start finds and kills the remaining processes. On other systems
// commands are plain process groups, with fewer guarantees (package group).
//
// Every program that runs this service must begin its main function with
//
//	if shim.Invoked() {
//		shim.Main()
//	}
//
// A command of a caged agent runs in a cage (package box), made of namespaces and with its own init (command cageinit).
// Package core decides which cages exist, their holders, and their ends.
//
// Goroutines: Run's own; those of the spawner (packages shimhost and group); per command one that watches it, one that
// writes its input if it gets any, and one that keeps its output if it is detached (package core); per Exec stream one
// that receives requests.
package sandboxsupervisor
