// Package lsppool is the service that runs language servers on the machine with a project's files, and queries them for
// other services.
//
// A query arrives over gRPC (internal/server). The pool (internal/core) determines the server for the file's language
// and the caller's view, starts it if none runs, sends it the changes on disk (internal/adapter/watch) and the query,
// and converts its answer (internal/lsp). Servers are programs in sandbox-supervisor (internal/adapter/sandbox), in a
// cage no wider than those of their callers. Each server runs in one Exec stream, so that it ends with this process
// even after a crash.
//
// The service writes no file. The answer to a rename has the new content of the files, and the hash of the content that
// each change is based on.
//
// Goroutines: Run's own, which stops idle servers; per server those of its connection and of its stream; per watched
// root one.
package lsppool
