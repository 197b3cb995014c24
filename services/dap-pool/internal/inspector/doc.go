// Package inspector is the debug adapter of runtimes with an inspector: Node, with the protocol of Chrome's developer
// tools, and bun, with that of WebKit's. [Open] connects to an inspector's WebSocket and returns a connection for the
// Debug Adapter Protocol.
//
// Both protocols have the domains Debugger and Runtime. They differ in names, in the form of breakpoints and in the
// start of a program; a [Dialect] has the differences. Source maps relate the running code to its source. They are read
// from the scripts themselves and from files of the project's folder.
//
// A program can forge all data of its runtime: messages, maps and lists are limited, and a message that is too long
// makes the request fail that it answers, not the session.
//
// Goroutines: per connection one that reads requests, one that reads the inspector, one that handles its events, one
// that waits for the program's end, and one per request. Closing the connection ends them and waits for them.
package inspector
