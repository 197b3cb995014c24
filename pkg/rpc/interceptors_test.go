package rpc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/fault"
)

// The log learns what a caller does not: defects and causes. What explains itself, such as a stream that was cancelled, is no
// defect.
func TestDefectsAreLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		code   codes.Code
		logged bool
	}{
		"success":            {nil, codes.OK, false},
		"a refusal":          {fault.New(fault.NotFound, "There is none."), codes.NotFound, false},
		"a cancelled stream": {status.FromContextError(context.Canceled).Err(), codes.Canceled, false},
		"a context":          {context.DeadlineExceeded, codes.DeadlineExceeded, false},
		"a defect":           {errors.New("index out of range"), codes.Internal, true},
		"a wrapped cause":    {fault.Wrap(errors.New("disk"), fault.Internal, "Something."), codes.Internal, true},
		"a foreign status":   {status.Error(codes.Internal, "frame too large"), codes.Internal, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			side := serverSide{slog.New(slog.NewTextHandler(&log, nil))}
			_, err := side.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x/Y"}, func(context.Context, any) (any, error) { return nil, c.err })
			if status.Code(err) != c.code || (log.Len() > 0) != c.logged {
				t.Errorf("answered %v, logged %q", err, log.String())
			}
		})
	}
}
