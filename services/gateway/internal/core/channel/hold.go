package channel

// Hold is a session that is held for a socket. Its methods are called by one goroutine.
type Hold interface {
	// ServerSeq returns the number of the last published frame, by channel.
	ServerSeq() map[string]int64
	// Wait blocks until the hold ends. It returns the holder's reason, or an error if the hold was lost. It releases
	// the session and is called once. It calls wanted whenever another socket asks for the session.
	Wait(wanted func()) (Ended, error)
}

// Ended is the holder's reason for the end of a hold.
type Ended struct {
	// Code is session_ended, replaced or server_shutdown.
	Code string
	// Reason is one sentence.
	Reason string
}
