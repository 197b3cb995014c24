// Package lsp is the client of one language server: its connection, the documents it is shown, and its answers.
//
// A server is hostile input. Frames, queues, answers and edits are bounded; a server that breaks a bound is cut off,
// and its calls fail with [ErrServer]. A server cannot change a file: workspace/applyEdit is refused, and edits come
// back as values.
//
// Positions leave the package as 0-based lines and UTF-16 characters, whatever the server's unit.
//
// Goroutines: per [Client] the reader and the closer of its jsonrpc2 connection, and the writer of its frames. All
// end with [Client.Close], which returns after the writer.
package lsp
