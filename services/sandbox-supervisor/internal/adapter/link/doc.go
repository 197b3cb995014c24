// Package link is the supervisor's side of the connection to a process that owns commands: the shim or a cage's init.
// It turns requests of the supervisor into frames (package frame), and frames into the processes of package core.
//
// A [Link] has no goroutine of its own: [Link.Serve] reads in its caller's. The owner of the peer ends it, and calls
// [Link.Lose] once all its processes are gone.
package link
