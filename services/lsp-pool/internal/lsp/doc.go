// Package lsp is the client of one language server: its connection, the documents sent to it, and its answers.
//
// A server is hostile input. Frames, queues, answers and edits are limited. A server that exceeds a limit is
// disconnected, and its calls fail with [ErrServer]. A server cannot change a file: workspace/applyEdit is refused, and
// edits are returned as values.
//
// The package returns positions as 0-based lines and UTF-16 characters for any unit of the server.
//
// Goroutines: per [Client] the reader and the closer of its jsonrpc2 connection, and the writer of its frames. All end
// with [Client.Close], which returns after the writer.
package lsp
