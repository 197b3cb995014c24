package calls

// Kept returns how many results are remembered.
func (c *Calls) Kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finished.Len()
}
