package rpc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kaged.dev/pkg/rpc"
)

// A stream outlives its caller until the other side has finished, at most by patience.
func TestLasting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused error
		lasts   time.Duration
	}{"asked": {nil, time.Second}, "nobody to ask": {errors.New("gone"), 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				asked := 0
				lasting, stop := rpc.Lasting(ctx, time.Second, func(context.Context) error { asked++; return c.refused })
				synctest.Wait()
				if lasting.Err() != nil || asked != 0 {
					t.Errorf("before its caller left: %v, asked %d times", lasting.Err(), asked)
				}
				left := time.Now()
				leave()
				<-lasting.Done()
				if took := time.Since(left); asked != 1 || took != c.lasts {
					t.Errorf("asked %d times, it lasted %s", asked, took)
				}
				stop()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		_, stop := rpc.Lasting(ctx, time.Hour, func(context.Context) error { return nil })
		began := time.Now()
		leave()
		synctest.Wait()
		stop()
		if time.Since(began) != 0 {
			t.Error("who had heard the end still waited")
		}
	})
}
