// Package channel holds the rules of one channel of one socket: which frame comes next, and how much may wait.
//
// A session's frames are numbered per channel by the one process that holds the session. They reach a gateway twice: live,
// once they are stored, and from the stream that keeps them for a while. A [Splice] joins the two into one sequence without
// gap or double: what comes live in order passes, what was seen before is dropped, and after a gap the stored frames are
// read from where the client stands until nothing is missing. A [Queue] bounds what waits for a slow client.
//
// Nothing here is safe for concurrent use or knows of a network.
package channel
