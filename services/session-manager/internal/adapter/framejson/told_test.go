package framejson_test

import (
	"encoding/json"
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/harnesswire"
	"kaged.dev/pkg/frametype"
	"kaged.dev/pkg/testkit/sample"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	"kaged.dev/services/session-manager/internal/sessions/core/frames"
)

// told returns the payload of each event that is only recorded and shown, made of a sample of the event's message.
func told() map[frametype.Type]frames.Told {
	all := map[frametype.Type]frames.Told{}
	fields := (&harnessv1.RunEvent{}).ProtoReflect().Descriptor().Oneofs().ByName("event").Fields()
	for i := range fields.Len() {
		ev := &harnessv1.RunEvent{}
		message := sample.Message(fields.Get(i).Message())
		ev.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfMessage(message.ProtoReflect()))
		if e, ok := harnesswire.FromEvent(ev).Event.(contract.Told); ok {
			all[e.FrameType()] = frames.Told{SessionID: "s", RunID: "r", InvocationID: "i", Event: e}
		}
	}
	return all
}

// complete fails the test unless the frame of a payload has a value in every field.
func complete(t *testing.T, p frames.Told) {
	t.Helper()
	kind := p.Event.FrameType()
	var shown map[string]any
	if err := json.Unmarshal([]byte(render(t, p)), &shown); err != nil {
		t.Fatal(err)
	}
	message := apiv1.File_kaged_api_v1_frame_proto.Messages().ByName(protoreflect.Name(kind.Message))
	for i := range message.Fields().Len() {
		name := message.Fields().Get(i).TextName()
		if v, there := shown[name]; !there || slices.Contains([]any{nil, "", 0.0, false}, v) {
			t.Errorf("the frame %s has %v in %s, want the event's value", kind.Name, v, name)
		}
	}
}

// The frame of an event that is only shown has every field of the event.
func TestToldFramesAreComplete(t *testing.T) {
	for _, kind := range []frametype.Type{frametype.RunRetry, frametype.NetworkAttempted} {
		complete(t, told()[kind])
	}
}
