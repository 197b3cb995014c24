// Package loop runs an agent until it is done: it calls the model, streams its output, runs the requested tools,
// and calls it again with their results.
//
// A [Tree] is a run: the root agent's invocation, and below it an invocation for each call of a child by its
// parent. They share routes, limits, the sink and the end; a conversation, tools, a cage and a record of requests
// each has of its own.
//
// A tree has no state of its own: a run is its [Start] and the events it sends to a [Sink]. The sink is also how
// the loop waits for storage, and the order is the point: a model's turn is stored before the first of its tools
// that is not parallel runs, and the results of a turn are stored with the record of the next call of the model, before
// that is made. So all that
// the model has read and done is on disk, also after a kill.
//
// A failing tool is a result for the model, never the end of a run. The end of the context is: it reaches the
// provider's request and every running tool, and the received part is kept.
//
// Goroutines: [Tree.Run] works in its caller's. Beside it a timer may send waiting text, and the parallel tools and the
// children of a turn each have a goroutine; all of them have ended when Run returns.
package loop
