// Package toolrunner is the service that runs the tools of agents, where a project's files are.
//
// A call comes in over gRPC (internal/server), is known by its session and id so that it happens once
// (internal/core/calls), and goes through the dispatcher (internal/core/dispatch): resolve, record, guard,
// validate, scope, permit, approve, bound, lock, run. The tools themselves stand in internal/core/tools, one file
// each, declared once with their parameters, needs and aliases. Beside them stand the memory of a session: reads
// (the content an agent has seen) and processes (the table of background processes).
//
// Everything about files and commands that other services of a workspace need too is a library: pkg/workspace (path
// guard, change sets, ignore rules, walking, text, cage views), pkg/sandbox (the vocabulary of commands and cages,
// and the client of sandbox-supervisor), pkg/search, pkg/astgrep, pkg/edit, pkg/patch and pkg/shellguard.
//
// Commands and background processes run in sandbox-supervisor; the latter outlive the call that started them and
// even this process. On disk are their table and the journal from which Start takes back changes of files that a
// dead process left half made; read records, held locks and remembered results live in memory and are bounded.
//
// Goroutines: one per running call, ended with its last waiting caller; a search has some more of its own, which
// end before it returns. Run cancels all of them when its context ends and returns when they are gone.
package toolrunner
