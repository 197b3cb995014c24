package fault_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/fault"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

// Every code of the list has its statuses and its hint.
func TestEveryCodeHasASpecAndAHint(t *testing.T) {
	values := commonv1.ErrorCode(0).Descriptor().Values()
	for i := range values.Len() {
		v := values.Get(i)
		if v.Number() == 0 {
			continue
		}
		code := fault.Code(v.Number())
		if !proto.HasExtension(v.Options(), commonv1.E_Error) || code.Spec().GetGrpc() == 0 {
			t.Errorf("%s has no gRPC status", v.Name())
		}
		if code.Hint() == "" {
			t.Errorf("%s has no hint; run go generate in pkg/fault", v.Name())
		}
		if back, ok := fault.ParseCode(code.String()); !ok || back != code {
			t.Errorf("%s does not read back from %q", v.Name(), code)
		}
	}
}

// The codes of the tools for files, searches and commands are on the list under their fixed names, each once (T-REG-26,
// for these tools).
func TestCodesOfTools(t *testing.T) {
	names := strings.Fields(`tool_not_found invalid_params capability_denied seccomp_insufficient principal_scope_violation
		file_not_found file_not_read file_exists file_busy file_changed_since_read old_string_not_found multiple_matches no_change
		invalid_pattern timeout shell_spawn_failed`)
	seen := map[string]int{}
	values := commonv1.ErrorCode(0).Descriptor().Values()
	for i := range values.Len() {
		seen[fault.Code(values.Get(i).Number()).String()]++
	}
	for _, name := range names {
		if code, ok := fault.ParseCode(name); !ok || code.String() != name || seen[name] != 1 {
			t.Errorf("%s is on the list %d times and reads as %v", name, seen[name], code)
		}
	}
}

// A code is found through wrapping, and the shown message is that of the inner error.
func TestAskingForTheClassOfAnError(t *testing.T) {
	inner := fault.New(fault.FileNotFound, "no file at %s", "a.txt")
	err := fmt.Errorf("secret path /root/x: %w", inner)
	if !errors.Is(err, fault.FileNotFound) || errors.Is(err, fault.Gone) {
		t.Errorf("errors.Is does not follow the code of %v", err)
	}
	if got := fault.From(err).Msg; got != "no file at a.txt" {
		t.Errorf("shown message = %q", got)
	}
}

// An error of another type is a defect, and its text is not shown.
func TestForeignErrorsShowNothing(t *testing.T) {
	for err, want := range map[error]fault.Code{
		errors.New("password=hunter2"):                fault.Internal,
		context.Canceled:                              fault.Cancelled,
		fmt.Errorf("x: %w", context.DeadlineExceeded): fault.DeadlineExceeded,
		fmt.Errorf("x: %w", fault.Gone):               fault.Gone,
	} {
		got := fault.From(err)
		if got.Code != want {
			t.Errorf("From(%v) = %s, want %s", err, got.Code, want)
		}
		if got.Msg == err.Error() {
			t.Errorf("From(%v) shows the foreign text", err)
		}
	}
	if fault.From(nil) != nil {
		t.Error("From(nil) is an error")
	}
}

// The encoded form holds all public parts and no other.
func TestProtoRoundTrip(t *testing.T) {
	e := fault.Wrap(errors.New("cause"), fault.DSLInvalid, "Validation failed.").
		With("errors", []any{map[string]any{"line": float64(3)}}).With("fields", []string{"path"}).With("n", 7).
		With("odd", struct{ A int }{1}).With("broken", "a\xffb").WithHTTP(422).
		With("places", []int{3, 7}).With("failures", []any{map[string]any{"places": []int{1}, "text": "a\xff"}}).
		With("by_line", map[int][]string{2: {"x"}}).With("none", nil)
	p := e.Proto()
	raw, err := proto.Marshal(p)
	if err != nil {
		t.Fatalf("details do not encode: %v", err)
	}
	var back commonv1.Error
	if err := proto.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	got := fault.FromProto(&back)
	if got.Code != e.Code || got.Msg != e.Msg || got.HTTP != 422 || got.Err != nil {
		t.Errorf("read back %+v", got)
	}
	if got.Details["n"] != 7.0 || got.Details["odd"] != "{1}" || got.Details["broken"] != "a\uFFFDb" {
		t.Errorf("details read back as %v", got.Details)
	}
	for name, want := range map[string]any{
		"places": []any{3.0, 7.0}, "failures": []any{map[string]any{"places": []any{1.0}, "text": "a\uFFFD"}},
		"by_line": map[string]any{"2": []any{"x"}}, "none": nil, "errors": []any{map[string]any{"line": 3.0}},
	} {
		if !reflect.DeepEqual(got.Details[name], want) {
			t.Errorf("%s reads back as %#v", name, got.Details[name])
		}
	}
	if fault.FromProto(&commonv1.Error{Code: 9999}).Code != fault.Internal {
		t.Error("an unknown code is not internal")
	}
	if fault.FromProto(nil) != nil || (*fault.Error)(nil).Proto() != nil {
		t.Error("nil does not stay nil")
	}
}

// With leaves the original unchanged, so that package-level errors can be shared.
func TestWithCopies(t *testing.T) {
	base := fault.New(fault.Conflict, "busy").With("a", 1)
	_ = base.With("b", 2)
	if len(base.Details) != 1 {
		t.Errorf("the original has %v", base.Details)
	}
}
