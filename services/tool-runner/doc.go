// Package toolrunner is the service that runs the tools of agents, where a project's files are.
//
// A call comes in over gRPC (internal/server), is known by its session and id so that it happens once (internal/core/calls),
// and goes through the dispatcher (internal/core/dispatch): resolve, record, guard, validate, scope, permit, approve, bound,
// lock, run. The tools themselves stand in internal/core/tools, one file each, declared once with their parameters, needs and
// aliases; what they share stands beside them: paths (where a tool may reach), reads (what an agent has seen), ignore and
// search (what git ignores, what a pattern finds), edit (text and diffs), patch (what the hunks of a
// patch mean in a file), syntax (parsing), structural (patterns that are code), env (what a command's environment holds).
//
// Commands are run by sandbox-supervisor, reached through internal/adapter/sandbox; so are background processes, which outlive
// the call that started them and even this process. On disk are their table (internal/core/processes) and the journal by which
// changes of files that a dead process left half made are taken back (paths.Recover); read records, held locks and remembered
// results live in memory and are bounded.
//
// Goroutines: one per call that runs, ended with the last who waits for it; a search has some more of its own, which end
// before it returns. Run cancels all of them when its context ends and returns when they are gone.
package toolrunner
