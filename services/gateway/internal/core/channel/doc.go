// Package channel holds the rules of one channel of one socket: which frame comes next, and how much may wait.
//
// A session's frames are numbered per channel by the one process that holds the session. They reach a gateway
// twice: live, once they are stored, and from the stream that keeps them for a while. A [Splice] joins the two into
// one sequence without gap or double: live frames in order pass, seen frames are dropped, and after a gap the
// stored frames are read from the client's place until the gap is closed. A [Queue] bounds the waiting frames of a
// slow client.
//
// The package is not safe for concurrent use and knows no network.
package channel
