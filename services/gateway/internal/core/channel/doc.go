// Package channel has the rules for one channel of one socket: which frame comes next, and how many bytes may wait.
//
// The process that holds a session numbers its frames per channel. A gateway receives each frame twice: live, once
// it is stored, and from the store, which keeps it for a while. A [Splice] joins the two into one sequence without
// gaps or duplicates. Live frames pass in order, frames that the client has are dropped, and after a gap stored
// frames are read from the client's position until the gap is closed. A [Queue] bounds the frames that wait for a
// slow client.
//
// The package is not safe for concurrent use and does no I/O.
package channel
