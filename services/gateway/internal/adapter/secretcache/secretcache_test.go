package secretcache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/gateway/internal/adapter/secretcache"
)

type operator struct {
	sessionmanagerv1.OperatorServiceClient
	secret string
	err    error
	asked  int
}

func (o *operator) GetAuthEpoch(
	context.Context, *sessionmanagerv1.GetAuthEpochRequest, ...grpc.CallOption,
) (*sessionmanagerv1.GetAuthEpochResponse, error) {
	o.asked++
	return &sessionmanagerv1.GetAuthEpochResponse{Secret: []byte(o.secret)}, o.err
}

// The secret is queried once, again when its copy is old or a token does not match, and never more often than the
// limit. The copy is used while session-manager is unavailable.
func TestCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &operator{err: fault.New(fault.Unavailable, "down")}
		c := secretcache.New(o, 5*time.Second, time.Second)
		if _, err := c.Current(t.Context()); !errors.Is(err, fault.Unavailable) {
			t.Fatalf("while nobody answers: %v", err)
		}
		want := func(step, secret string, asked int, get func(context.Context) ([]byte, error)) {
			t.Helper()
			got, err := get(t.Context())
			if string(got) != secret || err != nil || o.asked != asked {
				t.Errorf("%s: %q, %v, asked %d times; want %q, %d times", step, got, err, o.asked, secret, asked)
			}
		}
		o.err, o.secret = nil, "a"
		want("first", "a", 2, c.Current)
		want("again", "a", 2, c.Current)
		want("doubted at once", "a", 2, c.Renewed)
		o.secret = "b"
		time.Sleep(time.Second)
		want("not old", "a", 2, c.Current)
		want("doubted", "b", 3, c.Renewed)
		o.secret = "c"
		time.Sleep(5 * time.Second)
		want("old", "c", 4, c.Current)
		o.err = fault.New(fault.Unavailable, "down")
		time.Sleep(5 * time.Second)
		want("old, nobody answers", "c", 5, c.Current)
		want("old, nobody answered just now", "c", 5, c.Current)
		c.Set([]byte("d"))
		want("set", "d", 5, c.Current)
	})
}

// hanging is a session-manager that never answers.
type hanging struct {
	sessionmanagerv1.OperatorServiceClient
	asked int
}

func (h *hanging) GetAuthEpoch(
	ctx context.Context, _ *sessionmanagerv1.GetAuthEpochRequest, _ ...grpc.CallOption,
) (*sessionmanagerv1.GetAuthEpochResponse, error) {
	h.asked++
	<-ctx.Done()
	return nil, ctx.Err()
}

// While session-manager hangs and no secret is cached, one query fails for all waiting requests. The end of a
// request's context ends its wait.
func TestManyWaitForOneQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{}
		c := secretcache.New(h, 5*time.Second, time.Second)
		begun := time.Now()
		var waiting sync.WaitGroup
		for range 10 {
			waiting.Go(func() {
				if _, err := c.Current(t.Context()); !errors.Is(err, fault.Unavailable) {
					t.Errorf("got error %v for a waiting request, want unavailable", err)
				}
			})
		}
		synctest.Wait()
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Current(hasty); !errors.Is(err, fault.Unavailable) || time.Since(begun) != time.Second {
			t.Errorf("got error %v after %v, want unavailable at the timeout of 1 s", err, time.Since(begun))
		}
		waiting.Wait()
		if h.asked != 1 || time.Since(begun) != 5*time.Second {
			t.Errorf("asked %d times in %v, want once, for 5 s", h.asked, time.Since(begun))
		}
	})
}
