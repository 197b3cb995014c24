// Package processes keeps the table of background processes: their owners, their ends, and the part of their output
// already shown.
//
// The table does not run them. Their host ([command.Background]) knows their state and is queried each time; the table
// stores the facts that the host does not have or forgets. A process is stored before it is started, so that an
// interrupted start is known too. A stored process that its host no longer knows was ended with the host: it is lost.
//
// Each session's part is a file, which each change replaces atomically, so that a restart of this process loses no
// entry; without a folder it is in memory. The file stores the position of the poll before the last, so that after a
// restart output may be repeated but is never lost.
//
// A process is visible to the agent that started it and to its ancestors, never to its children or siblings, whose
// cages may be narrower.
package processes
