// Package loop runs an agent until it is done: it calls the model, streams its output, runs the requested tools, and
// calls it again with their results.
//
// A [Tree] is a run: the root agent's invocation, and below it an invocation for each call of a child by its parent.
// The invocations share routes, limits, the sink and the end of the context. Each has its own conversation, tools,
// cage and record of requests.
//
// A tree stores no state: a run is its [Start] and the events it sends to a [Sink]. The loop also waits for storage
// through the sink. A model's turn is stored before the first of its tools that is not parallel runs. The results of
// a turn are stored with the record of the next model call, before that call is made. So everything that the model
// has read and done is on disk, also after a kill.
//
// A failing tool is a result for the model and never ends the run. The end of the context ends the run: it cancels
// the provider's request and every running tool, and the received part of the answer is kept.
//
// Goroutines: [Tree.Run] works in its caller's goroutine. A timer may send waiting text, and each parallel tool and
// each child of a turn has a goroutine. All of them have ended when Run returns.
package loop
