package channel

// Hold is a session held for a socket. Its methods are called by one goroutine.
type Hold interface {
	// ServerSeq is the number of the last frame published, by channel.
	ServerSeq() map[string]int64
	// Wait returns when the hold is over: with the reason of the holder, or with an error if it was lost. It gives the
	// session back and is called once. Meanwhile wanted is called whenever another socket asks for the session.
	Wait(wanted func()) (Ended, error)
}

// Ended is why a holder ended a hold.
type Ended struct {
	// Code is session_ended, replaced or server_shutdown.
	Code string
	// Reason is one sentence.
	Reason string
}
