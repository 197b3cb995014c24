// Package wire is the common part of kaged's model drivers: one way to make a streaming call and to end it, to read
// server-sent events, to name tools, and to report errors.
//
// A driver builds a request with its provider's SDK and decodes its provider's events; the rest is here. [Stream] runs
// a call: it opens the connection, passes each event to the driver's [Decoder], limits the size and the time of an
// answer, detects silence, and converts every failure to a code of llm.Driver. [NewClient] makes the HTTP client with
// the connections of all calls; [Client] makes any client safe for credentials: it follows no redirects and reads a
// limited part of an error page.
//
// Goroutines: none of its own. A call runs in the caller's goroutine; a timer may cancel it.
package wire
