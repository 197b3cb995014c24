package watch

// Pause keeps the tree from reading events until the returned function is called.
func (t *Tree) Pause() (resume func()) {
	t.mu.Lock()
	return t.mu.Unlock
}
