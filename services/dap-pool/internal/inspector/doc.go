// Package inspector is the debug adapter of runtimes that are debugged over an inspector: Node, which speaks the
// protocol of Chrome's developer tools, and bun, which speaks that of WebKit's. [Open] connects to an inspector's
// WebSocket and returns a connection that speaks the Debug Adapter Protocol.
//
// Both protocols have the domains Debugger and Runtime, and differ in names, in the shape of breakpoints and in
// how a program begins; a [Dialect] is one of them. Source maps lead from the code that runs to its source: the
// maps are read from the scripts themselves and from files of the project's folder.
//
// Everything that a runtime sends is a program's to forge: messages, maps and lists are bounded, and a message
// that is too long fails the request that it answers, not the session.
//
// Goroutines: per connection one that reads requests, one that reads the inspector, one that handles its events,
// one that waits for the program's end, and one per request. Closing the connection ends them and waits for them.
package inspector
