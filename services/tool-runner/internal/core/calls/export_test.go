package calls

// Kept returns the number of stored outcomes.
func (c *Calls) Kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finished.Len()
}
