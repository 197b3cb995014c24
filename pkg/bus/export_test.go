package bus

// SetPendingMessages lowers the limit of waiting messages, so that tests reach it with few.
func (f *Frames) SetPendingMessages(n int) { f.pendingMessages = n }
