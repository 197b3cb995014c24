package projects

import "sync"

// prompt is a prompt's text and its SHA-256 in hex.
type prompt struct{ text, sha256 string }

type promptKey struct{ workspace, root, path string }

// promptCache has the prompts last read and stored, so that an unchanged one is neither transferred nor stored again.
// When it is full it is emptied completely. It is safe for concurrent use.
type promptCache struct {
	limit int // the maximum size of all texts together, in bytes

	mu      sync.Mutex // guards the fields below
	prompts map[promptKey]prompt
	size    int
}

func newPromptCache(limit int) *promptCache {
	return &promptCache{limit: limit, prompts: map[promptKey]prompt{}}
}

func (c *promptCache) get(key promptKey) (prompt, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.prompts[key]
	return p, ok
}

func (c *promptCache) put(key promptKey, p prompt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size += len(p.text) - len(c.prompts[key].text)
	if c.size > c.limit {
		clear(c.prompts)
		c.size = len(p.text)
	}
	c.prompts[key] = p
}
