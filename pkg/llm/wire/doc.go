// Package wire is what the model drivers of kaged share: one way to make a streaming call and to end it, to read
// server-sent events, to name tools, and to say what went wrong.
//
// A driver builds a request with its provider's SDK and knows the meaning of its provider's events; the rest is here.
// [Stream] runs a call: it opens the connection, feeds each event to the driver's [Decoder], bounds what an answer may
// grow to and how long it is waited for, watches for silence, and turns every failure into one of the codes that llm.Driver promises. [NewClient]
// makes the HTTP client whose connections all calls share; [Client] makes any client safe for credentials: it follows
// no redirects and reads only so much of an error page.
//
// Goroutines: none of its own. A call runs in the caller's goroutine; a timer may cancel it.
package wire
