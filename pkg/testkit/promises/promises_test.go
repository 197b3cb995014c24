package promises_test

import (
	"slices"
	"testing"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/testkit/promises"
	_ "kaged.dev/proto/gen/kaged/sessionmanager/v1"
)

// Codes are read from the sentence that promises them and from no other.
func TestCodes(t *testing.T) {
	t.Parallel()
	const comment = "It is gone. Fails with validation_failed (details.reason conflict), not_found, gone for an\nended " +
		"session, and conflict while it is queued. Unavailable is not meant, cancelled neither."
	want := []fault.Code{fault.ValidationFailed, fault.NotFound, fault.Gone, fault.Conflict}
	if got := promises.Codes(comment); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got := promises.Of("kaged.sessionmanager.v1")["kaged.sessionmanager.v1.SessionService.GetRun"]
	if !slices.Equal(got, []fault.Code{fault.NotFound}) {
		t.Errorf("GetRun promises %v", got)
	}
}

// A promise is kept by a call that ended so, or has a reason; a reason that is not needed is void.
func TestUnkept(t *testing.T) {
	t.Parallel()
	promised := map[string][]fault.Code{"a.v1.A.Get": {fault.NotFound, fault.Gone, fault.Conflict}}
	var l promises.Ledger
	l.Note("/a.v1.A/Get", fault.NotFound)
	unseen, void := l.Unkept(promised, map[string]string{"A.Get gone": "there is no end", "A.Get not_found": "old"})
	if !slices.Equal(unseen, []string{"A.Get conflict"}) || !slices.Equal(void, []string{"A.Get not_found"}) {
		t.Errorf("unseen %q, void %q", unseen, void)
	}
}
