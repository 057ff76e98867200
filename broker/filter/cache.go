package filter

import "sync"

const (
	maxCached     = 4096
	maxCachedText = 1024 // longer expressions are parsed each time
)

// Cache remembers parsed expressions, for pulls that bring theirs along each time. The zero value is ready.
type Cache struct {
	mu    sync.RWMutex
	byKey map[string]*Tags // at most maxCached; emptied when full
}

// Parse is the function Parse; it allocates nothing for an expression it has seen.
func (c *Cache) Parse(expression []byte) (*Tags, error) {
	c.mu.RLock()
	t := c.byKey[string(expression)]
	c.mu.RUnlock()
	if t != nil {
		return t, nil
	}
	t, err := Parse(string(expression))
	if err != nil || len(expression) > maxCachedText {
		return t, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil || len(c.byKey) >= maxCached {
		c.byKey = make(map[string]*Tags)
	}
	c.byKey[string(expression)] = t
	return t, nil
}
