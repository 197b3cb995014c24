// Package dispatch takes a call from its name to its result.
//
// The steps are behaviours, each a wrapper around a [tool.Tool] that knows one thing, put around every tool of the
// catalogue in one order:
//
//	resolve      name or alias -> entry the agent has          tool_not_found
//	record       tool.called, then what came of it
//	guard        a panic becomes a result                      internal
//	validate     JSON Schema, typed parameters                 invalid_params
//	scope        root-only tools                               principal_scope_violation
//	give         actions that the agent has, of a part         tool_not_found
//	permit       paths resolved, cage and operator's rules     invalid_params, capability_denied, seccomp_insufficient
//	approve      category, blocked commands, operator          command_blocked, approval_required, timeout, or the question
//	bound        the time of tools that keep none themselves   timeout
//	finish       errors after an edit, once its paths are free
//	lock         one call at a time per changed path           file_busy
//	run          the tool
//
// Each step can rely on the ones before it, and the first refusal is the answer: an unknown tool
// before bad parameters, those before a denial. A call that needs an operator's grant ends as a
// question, [Outcome].Approval: it has had no effect, and the same call with a grant for the same
// question runs.
//
// The dispatcher starts no goroutines and holds no state but the locks of running calls.
package dispatch
