// Package processes keeps the table of background processes: their owners, their ends, and the part of their output
// already shown.
//
// The table does not run them. Their host ([command.Background]) knows their state and is asked each time; the table
// stores the facts the host lacks or forgets. A process is noted before it is started, so that an interrupted start is
// known too. A noted process that its host no longer knows was ended with the host: it is lost.
//
// Each session's part is a file, written anew with each change and put in place whole, so that a restart of this
// process loses no entry; without a folder it is memory. The file stores the position of the poll before the last: a
// restart repeats output rather than omit some.
//
// A process is seen and handled by the agent that started it and by those above it, never by its children or siblings:
// their cages may be narrower.
package processes
