// Package link is the supervisor's side of the connection to a process that owns commands, the shim or a cage's init: it
// turns what the supervisor wants into frames (package frame), and frames into what package core knows as processes.
//
// A [Link] has no goroutine of its own: [Link.Serve] reads in its caller's. Who made the process ends it, and calls
// [Link.Lose] when nothing of it is left.
package link
