// Package epoch keeps a copy of the secret that session-manager holds for all gateways.
package epoch

import (
	"context"
	"errors"
	"sync"
	"time"

	"kaged.dev/pkg/fault"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// fetchTimeout bounds one question to session-manager.
const fetchTimeout = 5 * time.Second

// Cache is the copy. It is asked for again when it is older than its age limit, so that a secret another gateway has
// rotated is worthless here that soon; while session-manager cannot be reached the copy is used on, and asked for as rarely
// as else. Make one with [New]; it is safe for concurrent use and has no goroutines.
type Cache struct {
	client sessionmanagerv1.OperatorServiceClient
	maxAge time.Duration
	minAge time.Duration

	fetching sync.Mutex // held while session-manager is asked, so that one question serves all who wait
	mu       sync.Mutex // guards the fields below
	secret   []byte
	at       time.Time // of the last question that was answered
	failed   time.Time // of the last question that was not
}

// New returns an empty cache. The secret is used for at most maxAge, and asked for at most once in minAge.
func New(client sessionmanagerv1.OperatorServiceClient, maxAge, minAge time.Duration) *Cache {
	return &Cache{client: client, maxAge: maxAge, minAge: minAge}
}

// Current implements access.Secrets.
func (c *Cache) Current(ctx context.Context) ([]byte, error) { return c.fresh(ctx, c.maxAge) }

// Renewed implements access.Secrets.
func (c *Cache) Renewed(ctx context.Context) ([]byte, error) { return c.fresh(ctx, c.minAge) }

// Set replaces the secret by one that session-manager has just returned.
func (c *Cache) Set(secret []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secret, c.at = secret, time.Now()
}

// fresh returns a secret that is not older than age, or the one it has where session-manager does not answer.
func (c *Cache) fresh(ctx context.Context, age time.Duration) ([]byte, error) {
	if secret, old := c.get(age); !old {
		return secret, nil
	}
	c.fetching.Lock()
	defer c.fetching.Unlock()
	secret, old := c.get(age)
	if !old {
		return secret, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	resp, err := c.client.GetAuthEpoch(ctx, &sessionmanagerv1.GetAuthEpochRequest{})
	switch {
	case err == nil && len(resp.GetSecret()) > 0:
		c.Set(resp.GetSecret())
		return resp.GetSecret(), nil
	case secret != nil:
		c.mu.Lock()
		c.failed = time.Now()
		c.mu.Unlock()
		return secret, nil
	case err == nil:
		err = errors.New("session-manager returned an empty secret")
	}
	return nil, fault.Wrap(err, fault.Unavailable, "Sign-in does not work yet; try again shortly.").With("subsystem", "session-manager")
}

func (c *Cache) get(age time.Duration) (secret []byte, old bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.secret, c.secret == nil || time.Since(c.at) >= age && time.Since(c.failed) >= c.minAge
}
