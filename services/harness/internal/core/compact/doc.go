// Package compact keeps a conversation inside its model's window (`spec/agent-harness.md`, Compaction).
//
// A [Conversation] is a list of messages in the form of [llm.Normalize], each with the stored messages it comes from.
// Its parts are units: a message of the operator, or a turn of the model with the results of its calls. A unit is
// kept or dropped whole, so calls never lose their results and thinking never loses its turn.
//
// There are two ways to make room. [Conversation.Prune] replaces old tool results by a notice. It prunes many results
// at a time and rarely, so that the prompt caches of providers stay valid in between. [Conversation.Plan] chooses the
// oldest units, and [Plan.Apply] replaces them by a note.
//
// Token counts are estimates of [Tokens]. A [Meter] corrects them by the counts that providers report. The package
// does no I/O, and equal conversations and arguments give equal results, so a dry run equals the real run.
package compact
