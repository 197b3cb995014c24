// Package processes keeps the table of background processes: which there are, whose they are, what is known of how they ended,
// and how much of their output was shown.
//
// The table does not run them. Whoever does ([command.Background]) knows best, and is asked each time; the table remembers
// what only it knows, and what that one has forgotten. A process is noted before it is started, so that one whose start was
// cut off is known too. One that is noted and not known to its host any more was ended with it: it is lost.
//
// Each session's part is a file, written anew with each change and put in place whole, so that a restart of this process loses
// nothing; without a folder it is memory. Of what a poll has shown, the file knows the poll before: a restart repeats output
// sooner than it leaves some out.
//
// A process is seen and handled by the agent that started it and by those above it, never by its children or siblings: their
// cages may be narrower.
package processes
