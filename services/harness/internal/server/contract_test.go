package server

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// A run gets all its inputs (H-STREAM-ENTRY-02), and its events have no channel and number: the sequencer alone
// assigns these (H-STREAM-ENTRY-04).
func TestContract(t *testing.T) {
	t.Parallel()
	file := harnessv1.File_kaged_harness_v1_harness_service_proto
	start := file.Messages().ByName("RunStart")
	if start == nil {
		t.Fatal("there is no RunStart")
	}
	for _, name := range []protoreflect.Name{
		"session_id", "run_id", "compiled", "routes", "max_steps", "max_output_tokens",
	} {
		if start.Fields().ByName(name) == nil {
			t.Errorf("a run's start lacks %s", name)
		}
	}
	finished := file.Messages().ByName("RunFinished")
	for _, name := range []protoreflect.Name{"usage", "stop_reason", "stats", "outcome"} {
		if finished.Fields().ByName(name) == nil {
			t.Errorf("a run's end lacks %s", name)
		}
	}
	for i := range file.Messages().Len() {
		m := file.Messages().Get(i)
		for _, name := range []protoreflect.Name{"seq", "channel"} {
			if m.Fields().ByName(name) != nil {
				t.Errorf("%s has a field %s", m.FullName(), name)
			}
		}
	}
}
