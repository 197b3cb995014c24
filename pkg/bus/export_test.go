package bus

// SetPendingMessages lets tests be too slow with few messages.
func (f *Frames) SetPendingMessages(n int) { f.pendingMessages = n }
