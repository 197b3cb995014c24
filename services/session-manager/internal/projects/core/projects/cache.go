package projects

import "sync"

// cache stores the most recently added values, up to a maximum number. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	mu     sync.Mutex // guards the fields below
	values map[K]V
	order  []K // a ring of the keys in the order of their addition
	next   int
}

func newCache[K comparable, V any](size int) *cache[K, V] {
	return &cache[K, V]{values: make(map[K]V), order: make([]K, 0, size)}
}

func (c *cache[K, V]) get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.values[key]
	return v, ok
}

func (c *cache[K, V]) put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.values[key]; !ok {
		if len(c.order) < cap(c.order) {
			c.order = append(c.order, key)
		} else {
			delete(c.values, c.order[c.next])
			c.order[c.next] = key
			c.next = (c.next + 1) % len(c.order)
		}
	}
	c.values[key] = value
}
