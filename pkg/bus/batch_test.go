package bus

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go"
)

// Any message is parsed as the batch that was written, or refused; joined frames are the body.
func FuzzParse(f *testing.F) {
	f.Add("ws.S1.output", "1", "5", "2", []byte("a\nb"))
	f.Add("ws.S1.control", "9223372036854775807", "1", "0", []byte{})
	f.Add("ws.a.b.c", "-1", "x", "99999999999999999999", []byte("\n\n"))
	f.Add("ws.S1.output", "1", "9223372036854775807", "1", []byte("a"))
	f.Add("live.S1", "", "", "1000000", []byte("one"))
	f.Fuzz(func(t *testing.T, subj, epoch, seq, count string, body []byte) {
		b, ok := parse(subj, nats.Header{headerEpoch: {epoch}, headerSeq: {seq}, headerCount: {count}}, body, 7)
		if !ok {
			return
		}
		name, err := subject(b.Session, b.Channel)
		if err != nil || name != subj {
			t.Fatalf("%q was read as %q: %v", subj, name, err)
		}
		again, ok := parse(name, b.header(), b.Body, 7)
		if !ok || !same(again, b) {
			t.Fatalf("%+v was written and %+v read", b, again)
		}
		var frames [][]byte
		for n, frame := range b.Frames(0) {
			if n != b.Seq+int64(len(frames)) {
				t.Fatalf("frame %d has number %d", len(frames), n)
			}
			frames = append(frames, frame)
		}
		if len(frames) != b.Count || !bytes.Equal(bytes.Join(frames, []byte{'\n'}), b.Body) {
			t.Fatalf("%+v has frames %q", b, frames)
		}
	})
}
