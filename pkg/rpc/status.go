package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kaged.dev/pkg/fault"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// Domain is the domain of every ErrorInfo from kaged.
const Domain = "kaged.dev"

// ToStatus converts err to a status, nil for nil. Its message is that of the innermost *fault.Error only, because texts
// added around it may hold paths or secrets.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	if st, ok := err.(interface{ GRPCStatus() *status.Status }); ok && !isFault(err) {
		return st.GRPCStatus().Err()
	}
	f := fault.From(err)
	st := status.New(codes.Code(f.Code.Spec().GetGrpc()), f.Msg)
	withDetails, detailErr := st.WithDetails(
		&errdetails.ErrorInfo{Reason: f.Code.Reason(), Domain: Domain, Metadata: flat(f.Details)},
		f.Proto(),
	)
	if detailErr != nil {
		return st.Err()
	}
	return withDetails.Err()
}

// FromStatus returns the *fault.Error of a status. A status without one, such as the transport's own, gets the code of
// its class. io.EOF and nil are returned unchanged.
func FromStatus(err error) error {
	if err == nil || errors.Is(err, io.EOF) || isFault(err) {
		return err
	}
	st, ok := status.FromError(err)
	if !ok {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return fault.From(err)
		}
		return fault.Wrap(err, fault.Internal, "Something went wrong inside kaged; the log has the cause.")
	}
	for _, d := range st.Details() {
		if e, ok := d.(*commonv1.Error); ok {
			return fault.FromProto(e)
		}
	}
	f := fault.Wrap(err, classOf(st.Code()), "%s", classMessage(st))
	if st.Code() == codes.ResourceExhausted {
		f = f.With("limit_bytes", MaxMessage)
	}
	return f
}

func isFault(err error) bool {
	var f *fault.Error
	return errors.As(err, &f)
}

func classOf(c codes.Code) fault.Code {
	switch c {
	case codes.InvalidArgument, codes.OutOfRange:
		return fault.BadRequest
	case codes.NotFound:
		return fault.NotFound
	case codes.Unimplemented:
		return fault.MethodNotAllowed
	case codes.Unauthenticated:
		return fault.Unauthenticated
	case codes.PermissionDenied:
		return fault.Forbidden
	case codes.AlreadyExists, codes.Aborted, codes.FailedPrecondition:
		return fault.Conflict
	case codes.ResourceExhausted:
		return fault.PayloadTooLarge
	case codes.Unavailable:
		return fault.Unavailable
	case codes.Canceled:
		return fault.Cancelled
	case codes.DeadlineExceeded:
		return fault.DeadlineExceeded
	}
	return fault.Internal
}

func classMessage(st *status.Status) string {
	switch st.Code() {
	case codes.Unavailable:
		return "A part of kaged cannot be reached; try again shortly."
	case codes.Canceled:
		return "The work was cancelled."
	case codes.DeadlineExceeded:
		return "The work took longer than its limit."
	case codes.ResourceExhausted:
		return "What was sent, or asked for, is larger than one message between the parts of kaged may be."
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return "Something went wrong inside kaged; the log has the cause."
	}
	return st.Message()
}

// flat formats details for ErrorInfo, whose metadata allows only strings; the full details are sent beside it.
func flat(details map[string]any) map[string]string {
	if len(details) == 0 {
		return nil
	}
	m := make(map[string]string, len(details))
	for k, v := range details {
		m[k] = fmt.Sprint(v)
	}
	return m
}
