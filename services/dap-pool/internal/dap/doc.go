// Package dap is a client of debug adapters: the Debug Adapter Protocol over a byte stream.
//
// An adapter is hostile: every frame is bounded, every text in an error is cut, and an answer to no question is
// thrown away. A stream that breaks the framing is closed. The types of arguments and bodies are those of go-dap;
// they are read where they are used, so that one that cannot be read fails one request and not the connection.
//
// Goroutines: per [Client] one that reads and one that writes. Both end with [Client.Close].
package dap
