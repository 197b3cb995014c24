// Package secretcache caches the secret that all gateways share and session-manager stores.
package secretcache

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// fetchTimeout is the timeout of a query while no secret is cached, refreshTimeout that of a query to refresh a
// cached secret. Requests wait for both.
const (
	fetchTimeout   = 5 * time.Second
	refreshTimeout = time.Second
)

// Cache caches the secret. A copy older than its maximum age is refreshed, so that a secret that another gateway
// has rotated is refused here after that time. While session-manager is unavailable the copy stays in use, and the
// number of queries stays bounded. Make one with [New]; it is safe for concurrent use and has no goroutines.
type Cache struct {
	client sessionmanagerv1.OperatorServiceClient
	maxAge time.Duration
	minAge time.Duration

	fetching chan struct{} // holds a token during a query, so that one query serves all waiting requests
	mu       sync.Mutex    // guards the fields below
	secret   []byte
	at       time.Time // time of the last successful query or Set
	failed   time.Time // time of the last failed query
	failure  error     // error of the last failed query
	waiting  map[*func()]bool
}

// New returns an empty cache. A secret older than maxAge is refreshed. While a secret is cached, queries are at
// least minAge apart.
func New(client sessionmanagerv1.OperatorServiceClient, maxAge, minAge time.Duration) *Cache {
	return &Cache{
		client: client, maxAge: maxAge, minAge: minAge, fetching: make(chan struct{}, 1), waiting: map[*func()]bool{},
	}
}

// Current implements access.Secrets.
func (c *Cache) Current(ctx context.Context) ([]byte, error) { return c.fresh(ctx, c.maxAge) }

// Renewed implements access.Secrets.
func (c *Cache) Renewed(ctx context.Context) ([]byte, error) { return c.fresh(ctx, c.minAge) }

// Set replaces the secret by one that session-manager has just returned, and calls the functions of Replaced if it
// differs.
func (c *Cache) Set(secret []byte) {
	c.mu.Lock()
	var told map[*func()]bool
	if c.secret != nil && !bytes.Equal(c.secret, secret) {
		told, c.waiting = c.waiting, map[*func()]bool{}
	}
	c.secret, c.at = secret, time.Now()
	c.mu.Unlock()
	for f := range told {
		(*f)()
	}
}

// Replaced implements access.Secrets.
func (c *Cache) Replaced(f func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[&f] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, &f)
	}
}

// fresh returns a secret that is at most age old, or the cached one if session-manager does not answer. If no
// secret is cached, one failed query fails for all requests that waited for it.
func (c *Cache) fresh(ctx context.Context, age time.Duration) ([]byte, error) {
	secret, old := c.get(age)
	if !old {
		return secret, nil
	}
	since := time.Now()
	select {
	case c.fetching <- struct{}{}:
		defer func() { <-c.fetching }()
	case <-ctx.Done():
		return nil, unavailable(ctx.Err())
	}
	if secret, old = c.get(age); !old {
		return secret, nil
	}
	if err := c.failedSince(since); err != nil && secret == nil {
		return nil, err
	}
	return c.fetch(ctx, secret)
}

// fetch queries session-manager. On failure it returns kept, if that is not nil.
func (c *Cache) fetch(ctx context.Context, kept []byte) ([]byte, error) {
	limit := fetchTimeout
	if kept != nil {
		limit = refreshTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resp, err := c.client.GetAuthEpoch(ctx, &sessionmanagerv1.GetAuthEpochRequest{})
	if err == nil && len(resp.GetSecret()) > 0 {
		c.Set(resp.GetSecret())
		return resp.GetSecret(), nil
	}
	if err == nil {
		err = errors.New("session-manager returned an empty secret")
	}
	err = unavailable(err)
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c.mu.Lock()
		c.failed, c.failure = time.Now(), err
		c.mu.Unlock()
	}
	if kept != nil {
		return kept, nil
	}
	return nil, err
}

func unavailable(cause error) error {
	return fault.Wrap(cause, fault.Unavailable, "Sign-in does not work yet; try again shortly.").
		With("subsystem", "session-manager")
}

func (c *Cache) get(age time.Duration) (secret []byte, old bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.secret, c.secret == nil || time.Since(c.at) >= age && time.Since(c.failed) >= c.minAge
}

// failedSince returns the error of a query that failed after since, or nil.
func (c *Cache) failedSince(since time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed.After(since) {
		return c.failure
	}
	return nil
}
