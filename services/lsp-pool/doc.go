// Package lsppool is the service that runs language servers where a project's files are, and asks them for other
// services.
//
// A question comes in over gRPC (internal/server). The pool (internal/core) finds the server of the file's language
// for the view of the caller, starts it if none runs, tells it of changes on disk (internal/adapter/watch), asks it,
// and turns its answer into values (internal/lsp). Servers are programs in sandbox-supervisor
// (internal/adapter/sandbox), in a cage no wider than their callers': each lives in one Exec stream, so that it ends
// with this process, however that ends.
//
// The service writes no file. A rename comes back as the new content of files, with the hash of the content that it
// is meant for.
//
// Goroutines: Run's own, which ends idle servers; per server those of its connection and of its stream; per watched
// root one.
package lsppool
