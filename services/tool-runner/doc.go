// Package toolrunner is the service that runs the tools of agents, beside a project's files.
//
// A call arrives over gRPC (internal/server), is identified by its session and id so that it runs once
// (internal/core/calls), and goes through the dispatcher (internal/core/dispatch): resolve, record, guard, validate,
// scope, permit, approve, bound, lock, run. The tools are in internal/core/tools, one file each, declared once with
// their parameters, needs and aliases. Other packages hold the state of a session: reads (the content that an agent has
// seen) and processes (the table of background processes).
//
// Code for files and commands that other services of a workspace need too is in libraries: pkg/workspace (path guard,
// change sets, ignore rules, walking, text, cage views), pkg/sandbox (the vocabulary of commands and cages, and the
// client of sandbox-supervisor), pkg/search, pkg/astgrep, pkg/edit, pkg/patch and pkg/shellguard.
//
// Commands and background processes run in sandbox-supervisor; the latter outlive the call that started them and even
// this process. Their table is on disk, and so is the journal from which Start rolls back incomplete changes of files
// by a killed process; read records, held locks and remembered results are in memory and limited.
//
// Goroutines: one per running call, which ends with its last waiting caller; a search has additional ones, which end
// before it returns. Run cancels all of them when its context ends and returns when they are gone.
package toolrunner
