package store_test

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"

	"kaged.dev/services/session-manager/internal/audit/core/audit"
	"kaged.dev/services/session-manager/internal/operators/core/operator"
	"kaged.dev/services/session-manager/internal/operators/store"
	"kaged.dev/services/session-manager/internal/storetest"
)

var _ operator.Store = (*store.Operator)(nil)

// All replicas have the same secret, from the first request on, until it is replaced. A-CSRF-04.
func TestEpoch(t *testing.T) {
	o := store.NewOperator(storetest.Open(t))
	secrets := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range secrets {
		wg.Go(func() {
			var err error
			if secrets[i], err = o.EnsureEpoch(t.Context(), bytes.Repeat([]byte{byte(i + 1)}, 32), 1); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range secrets {
		if len(s) != 32 || !bytes.Equal(s, secrets[0]) {
			t.Errorf("replicas got %x and %x", s, secrets[0])
		}
	}
	fresh := bytes.Repeat([]byte{99}, 32)
	if err := o.ReplaceEpoch(t.Context(), fresh, 2, audit.Record{EventType: "auth.epoch_rotated"}); err != nil {
		t.Fatal(err)
	}
	if got, err := o.EnsureEpoch(t.Context(), []byte("other"), 3); err != nil || !bytes.Equal(got, fresh) {
		t.Errorf("after the rotation: %x, %v", got, err)
	}
}

// Replacing a missing secret creates it, and stores its record.
func TestReplaceEpochFirst(t *testing.T) {
	pool := storetest.Open(t)
	o := store.NewOperator(pool)
	if err := o.ReplaceEpoch(t.Context(), []byte("secret"), 2, audit.Record{EventType: "auth.epoch_rotated"}); err != nil {
		t.Fatal(err)
	}
	if got := storetest.Types(t, pool, audit.Query{}); got != "auth.epoch_rotated" {
		t.Errorf("recorded %q", got)
	}
}

// Of many simultaneous uses of a launch token exactly one succeeds. Expired tokens are refused and removed; a rotation
// removes all. A-LAUNCH-05.
func TestLaunchTokens(t *testing.T) {
	pool := storetest.Open(t)
	o := store.NewOperator(pool)
	put := func(hash string, now, expiresAt int64) {
		t.Helper()
		if err := o.PutLaunchToken(t.Context(), []byte(hash), now, expiresAt); err != nil {
			t.Fatal(err)
		}
	}
	take := func(hash string, now int64) bool {
		ok, err := o.TakeLaunchToken(t.Context(), []byte(hash), now)
		if err != nil {
			t.Error(err)
		}
		return ok
	}
	put("one", 0, 100)
	put("two", 0, 100)
	var taken atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if take("one", 50) {
				taken.Add(1)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1 || !take("two", 99) || take("none", 0) {
		t.Errorf("one token was taken %d times", taken.Load())
	}
	put("late", 0, 100)
	if take("late", 100) {
		t.Error("an expired token was taken")
	}
	put("old", 0, 100)
	put("new", 200, 300)
	var left int
	if err := pool.QueryRow(t.Context(), "select count(*) from launch_tokens").Scan(&left); err != nil || left != 1 {
		t.Errorf("%d tokens left, %v", left, err)
	}
	if err := o.ReplaceEpoch(t.Context(), []byte("s"), 201, audit.Record{EventType: "e"}); err != nil || take("new", 202) {
		t.Errorf("a token survived the rotation, %v", err)
	}
}
