// Package secretcache keeps a copy of the secret that session-manager holds for all gateways.
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

// fetchTimeout bounds one question to session-manager, refreshTimeout one that is asked with a copy in hand:
// requests wait for it.
const (
	fetchTimeout   = 5 * time.Second
	refreshTimeout = time.Second
)

// Cache is the copy. It is asked for again when it is older than its age limit, so that a secret another gateway
// has rotated is worthless here that soon; while session-manager cannot be reached the copy is used on, and asked
// for as rarely as else. Make one with [New]; it is safe for concurrent use and has no goroutines.
type Cache struct {
	client sessionmanagerv1.OperatorServiceClient
	maxAge time.Duration
	minAge time.Duration

	fetching chan struct{} // holds a token while session-manager is asked, so that one question serves all waiters
	mu       sync.Mutex    // guards the fields below
	secret   []byte
	at       time.Time // of the last question that was answered
	failed   time.Time // of the last question that was not
	failure  error     // the result of that
	waiting  map[*func()]bool
}

// New returns an empty cache. The secret is used for at most maxAge, and asked for at most once in minAge.
func New(client sessionmanagerv1.OperatorServiceClient, maxAge, minAge time.Duration) *Cache {
	return &Cache{
		client: client, maxAge: maxAge, minAge: minAge, fetching: make(chan struct{}, 1), waiting: map[*func()]bool{},
	}
}

// Current implements access.Secrets.
func (c *Cache) Current(ctx context.Context) ([]byte, error) { return c.fresh(ctx, c.maxAge) }

// Renewed implements access.Secrets.
func (c *Cache) Renewed(ctx context.Context) ([]byte, error) { return c.fresh(ctx, c.minAge) }

// Set replaces the secret by one that session-manager has just returned.
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

// fresh returns a secret that is not older than age, or the one it has where session-manager does not answer.
// Without one, a question that fails fails for all its waiters.
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

// fetch asks session-manager. Where it does not answer, kept is returned unless it is nil.
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

// failedSince returns the error of a question that failed after since, or nil.
func (c *Cache) failedSince(since time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed.After(since) {
		return c.failure
	}
	return nil
}
