package holderconn_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/services/gateway/internal/adapter/holderconn"
)

// place is a session-manager that names another holder, or returns err if it has no other holder.
type place struct {
	grpc.ClientConnInterface
	holder string
	err    error
}

func (p place) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	if p.holder != "" {
		return fault.New(fault.StaleLease, "not here").With("holder", p.holder)
	}
	return p.err
}

// A call reaches the holder over at most two hops and returns the holder's error. It fails with unavailable if the
// holder is unknown, unreachable or more hops away.
func TestFollow(t *testing.T) {
	t.Parallel()
	unnamed := fault.New(fault.StaleLease, "nobody")
	places := map[string]place{
		"a": {holder: "b"}, "b": {holder: "c"}, "c": {}, "d": {holder: "a"},
		"missing": {err: fault.New(fault.NotFound, "no")},
		"ring":    {holder: "ring"}, "unnamed": {err: unnamed}, "lost": {holder: "nowhere"},
	}
	dial := func(address string) (grpc.ClientConnInterface, error) {
		p, ok := places[address]
		if !ok {
			return nil, errors.New("no such address")
		}
		return p, nil
	}
	for name, want := range map[string]fault.Code{
		"a": 0, "c": 0, "missing": fault.NotFound, "ring": fault.Unavailable, "d": fault.Unavailable,
		"unnamed": fault.Unavailable,
		"lost":    fault.Unavailable,
	} {
		err := holderconn.New(places[name], dial).Invoke(t.Context(), "/m", nil, nil)
		if fault.CodeOf(err) != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
