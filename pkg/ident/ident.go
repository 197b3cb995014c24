// Package ident makes kaged's identifiers and carries a call's operator.
//
// Ids are ULIDs: 26 characters, sortable by the time they were made, and increasing within a process even inside one
// millisecond. They are not secret, and they do not order events of several processes; the order within a session is
// its ordinal.
package ident

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

var entropy = struct {
	sync.Mutex // guards the reader, which stores the last id
	*ulid.MonotonicEntropy
}{MonotonicEntropy: ulid.Monotonic(rand.Reader, 0)}

// New returns a fresh id. It is safe for concurrent use.
func New() string {
	entropy.Lock()
	defer entropy.Unlock()
	id, err := ulid.New(ulid.Timestamp(time.Now()), entropy.MonotonicEntropy)
	if err != nil {
		// The millisecond's counter overflowed. As 2^80 ids in one millisecond are impossible, its random start was near the
		// limit.
		entropy.MonotonicEntropy = ulid.Monotonic(rand.Reader, 0)
		id = ulid.MustNew(ulid.Timestamp(time.Now()), entropy.MonotonicEntropy)
	}
	return id.String()
}

// Valid reports whether s has the form of an id: 26 characters of upper-case Crockford base32.
func Valid(s string) bool {
	id, err := ulid.ParseStrict(s)
	return err == nil && id.String() == s
}

// Caller is the operator of a request and the request's id. It is passed in the context and, through package rpc, from
// service to service.
type Caller struct {
	// UserID is the operator, "" if unknown.
	UserID string
	// Email is for display only.
	Email string
	// RequestID correlates the records of one request.
	RequestID string
	// AuthMode is how the operator signed in: loopback, sidecar, insecure or token.
	AuthMode string
	// AgentPath is the tree path of the agent that acts for the operator, "" for the operator in person. A tool sets it.
	AgentPath string
	// Role is [Admin] for an administrator of a shared deployment, as found by the gateway; "" for all others.
	Role string
}

// Admin is the role of administrators.
const Admin = "admin"

type callerKey struct{}

// WithCaller returns a context with c.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller of ctx, the zero Caller if absent.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
