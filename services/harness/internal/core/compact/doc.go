// Package compact keeps a conversation inside its model's window (`spec/agent-harness.md`, Compaction).
//
// A [Conversation] is a list of messages in the form of [llm.Normalize], each with the stored messages it comes
// from. Its parts are units: a message of the operator, or a turn of the model with the results of its calls. A
// unit is kept or dropped whole, so calls never lose their results and thinking never loses its turn.
//
// There are two ways to make room. [Conversation.Prune] replaces old and large tool results by a notice; it moves a
// horizon forward in large strides, so that the prompt caches of providers stay valid in between. [Conversation.Drop]
// removes the oldest units and leaves a note in their place.
//
// Token counts are estimates of [Tokens], which a [Meter] corrects by the counts that providers report. The
// package does no input or output, and the same conversation and arguments give the same result: a dry run
// equals the real run.
package compact
