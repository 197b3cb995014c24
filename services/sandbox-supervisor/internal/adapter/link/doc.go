// Package link is the supervisor's side of the connection to the parent process of commands: the shim or a cage's init.
// It converts requests of the supervisor to frames (package frame), and frames to the processes of package core.
//
// A [Link] has no goroutine of its own: [Link.Serve] reads in its caller's. The owner of the peer ends it, and calls
// [Link.Lose] once all its processes have ended.
package link
