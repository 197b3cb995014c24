package host

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// A message arrives as it was sent, by a stream and by a unary call, and the two sides share no part of it that can
// change.
func TestCopies(t *testing.T) {
	t.Parallel()
	message := func() *harnessv1.Message {
		m := &harnessv1.Message{Role: harnessv1.Role_ROLE_TOOL}
		for _, name := range []string{"a", "b"} {
			m.Blocks = append(m.Blocks, &harnessv1.Block{Block: &harnessv1.Block_ToolResult{
				ToolResult: &harnessv1.ToolResult{ToolCallId: name, Content: "content"},
			}})
		}
		m.ProtoReflect().SetUnknown([]byte{0xf8, 0x7f, 0x01}) // field 2047, 1
		return m
	}
	for name, arrive := range map[string]func(out, in proto.Message) error{
		"stream": func(out, in proto.Message) error {
			message, err := clone(in)
			if err != nil {
				return err
			}
			return message.moveTo(out)
		},
		"unary": func(out, in proto.Message) error { return copyMessage(out, in) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, out := message(), &harnessv1.Message{Blocks: []*harnessv1.Block{{}, {}, {}}} // out held an earlier message
			if err := arrive(out, in); err != nil || !proto.Equal(out, message()) {
				t.Fatalf("got %v, %v, want %v", out, err, message())
			}
			in.Blocks[0].GetToolResult().Content = "changed by the sender"
			in.Blocks = append(in.Blocks[:1], nil)
			if !proto.Equal(out, message()) {
				t.Errorf("after a change by the sender got %v, want %v", out, message())
			}
			in = message()
			if err := arrive(out, in); err != nil {
				t.Fatal(err)
			}
			out.Blocks[1].GetToolResult().ToolCallId = "changed by the receiver"
			if !proto.Equal(in, message()) {
				t.Errorf("after a change by the receiver the sent message is %v, want %v", in, message())
			}
			dynamic := dynamicpb.NewMessage(in.ProtoReflect().Descriptor())
			if err := arrive(dynamic, in); err != nil || !proto.Equal(dynamic, message()) {
				t.Errorf("got %v, %v in a message of another type, want %v", dynamic, err, message())
			}
		})
	}
}
