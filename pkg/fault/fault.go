// Package fault is kaged's one error type and its codes.
//
// An [Error] has a [Code] from the one list (kaged.common.v1.ErrorCode), a sentence for the user, details, and the
// cause for the log. A Code is itself an error value, so that errors.Is(err, fault.FileNotFound) tests the code of any
// error, also of one from another service: package rpc converts an Error to a gRPC status and back. Any other error is
// a defect: it is sent as [Internal], and only the log has its text.
package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/structs"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

//go:generate go run ./internal/gen

// Code is an error code. Its text is the snake_case name used in JSON, on sockets and in tool results.
type Code commonv1.ErrorCode

// Error returns the code's snake_case name. A Code is an error so that it can be an argument of errors.Is.
func (c Code) Error() string { return c.String() }

// String returns the code's snake_case name, "unspecified" for an unknown one.
func (c Code) String() string { return strings.ToLower(c.Reason()) }

// Reason returns the UPPER_SNAKE_CASE name used in google.rpc.ErrorInfo.
func (c Code) Reason() string {
	v := c.descriptor()
	if v == nil {
		return "UNSPECIFIED"
	}
	return strings.TrimPrefix(string(v.Name()), "ERROR_CODE_")
}

// Spec returns the code's gRPC and HTTP status, whether a retry may help, and its JSON-RPC number.
func (c Code) Spec() *commonv1.ErrorSpec {
	if v := c.descriptor(); v != nil {
		if spec, ok := proto.GetExtension(v.Options(), commonv1.E_Error).(*commonv1.ErrorSpec); ok && spec != nil {
			return spec
		}
	}
	return internalSpec
}

// Hint returns, from the one list, the situation of the code and the next step. A model gets it with a failed tool
// call.
func (c Code) Hint() string { return hints[c] }

var internalSpec = &commonv1.ErrorSpec{Grpc: 13}

func (c Code) descriptor() protoreflect.EnumValueDescriptor {
	return commonv1.ErrorCode(0).Descriptor().Values().ByNumber(protoreflect.EnumNumber(c))
}

// ParseCode parses a code in either spelling.
func ParseCode(s string) (Code, bool) {
	v := commonv1.ErrorCode(0).Descriptor().Values().ByName(protoreflect.Name("ERROR_CODE_" + strings.ToUpper(s)))
	if v == nil || v.Number() == 0 {
		return 0, false
	}
	return Code(v.Number()), true
}

// Error is a failure for the user.
type Error struct {
	// Code is the class of the failure.
	Code Code
	// Msg is one sentence for the user. It must not hold secrets or the text of foreign errors.
	Msg string
	// Details are structured details: strings, numbers, booleans, nil, and slices and string-keyed maps of these.
	Details map[string]any
	// HTTP is the HTTP status of this error if it differs from the code's; otherwise 0.
	HTTP int
	// Err is the cause, for the log only.
	Err error
}

// CommitUnknown is set to true in the details of a failure after which it is unknown whether a change was stored. The
// change is stored completely or not at all; the caller must read to find out.
const CommitUnknown = "commit_unknown"

// New makes an Error; format and args make its message.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// Wrap makes an Error with err as its cause for the log.
func Wrap(err error, code Code, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...), Err: err}
}

// With returns a copy of e with one more detail.
func (e *Error) With(key string, value any) *Error {
	c := *e
	c.Details = maps.Clone(e.Details)
	if c.Details == nil {
		c.Details = map[string]any{}
	}
	c.Details[key] = value
	return &c
}

// WithHTTP returns a copy of e with its own HTTP status.
func (e *Error) WithHTTP(status int) *Error {
	c := *e
	c.HTTP = status
	return &c
}

// Error returns code, message and cause, for the log.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, strings.TrimSuffix(e.Msg, "."), e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Msg)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the error's code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// From returns the Error in err's chain. Another error is converted: the context's errors to [Cancelled] and
// [DeadlineExceeded], any other to [Internal] with a generic message. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	var code Code
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &code):
		return Wrap(err, code, "%s", code.Hint())
	case errors.Is(err, context.Canceled):
		return Wrap(err, Cancelled, "The work was cancelled.")
	case errors.Is(err, context.DeadlineExceeded):
		return Wrap(err, DeadlineExceeded, "The work took longer than its limit.")
	}
	return Wrap(err, Internal, "Something went wrong inside kaged; the log has the cause.")
}

// CodeOf returns the code of err, 0 for nil.
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	return From(err).Code
}

// A nil error is a nil message. A detail without a JSON form is written as text.
//
//convert:both .Proto fromProto *Error *commonv1.Error Msg=Message HTTP=HttpStatus >Details=detailsProto(in.Details)
//convert:with <Details=detailsFromProto(in.Details) <Err=-

func detailsProto(details map[string]any) *structpb.Struct {
	if len(details) == 0 {
		return nil
	}
	return structs.Of(details)
}

func detailsFromProto(p *structpb.Struct) map[string]any {
	if p == nil {
		return nil
	}
	return p.AsMap()
}

// FromProto is the reverse of [Error.Proto]. An unknown code becomes Internal.
func FromProto(p *commonv1.Error) *Error {
	e := fromProto(p)
	if e != nil && (e.Code == 0 || e.Code.descriptor() == nil) {
		e.Code = Internal
	}
	return e
}
