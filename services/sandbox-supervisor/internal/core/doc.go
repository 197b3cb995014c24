// Package core holds the rules for running commands: which may start, their owners, and the ways and reasons of their
// end. A [Spawner] starts and kills processes.
//
// A command ends by itself, at its time limit, when its caller leaves, when its owner ends, or with the supervisor. In
// every case except the first it is asked to end with SIGTERM, and killed with all its descendants after a grace.
//
// Goroutines: one per command watches it; one more writes its standard input, from the first byte on. Both end with the
// command, and [Supervisor.Close] returns after them.
package core
