// Package core holds the rules of running commands: which may start, their owners, and how and why they end. Starting
// and killing a process is the task of a [Spawner].
//
// A command ends by itself, at its time limit, when its caller goes away, when its owner ends, or with the supervisor.
// In every case but the first it is asked to end with SIGTERM, and after a grace everything it started is killed.
//
// Goroutines: one per command watches it; one more feeds its standard input from the first byte on. Both end when the
// command is gone, and [Supervisor.Close] returns after them.
package core
