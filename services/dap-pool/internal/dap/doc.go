// Package dap is a client of debug adapters: the Debug Adapter Protocol over a byte stream.
//
// An adapter is hostile: every frame has a limit, every text in an error is cut, and an answer without a request is
// dropped. A stream that breaks the framing is closed. The types of arguments and bodies are those of go-dap. They are
// decoded by the caller, so that a body that cannot be decoded makes one request fail and not the connection.
//
// Goroutines: per [Client] one that reads and one that writes. Both end with [Client.Close].
package dap
