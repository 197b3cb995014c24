package bus

import (
	"bytes"
	"iter"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"kaged.dev/pkg/fault"
)

// Headers of a message.
const (
	headerEpoch = "Kaged-Epoch"
	headerSeq   = "Kaged-Seq"
	headerCount = "Kaged-Count"

	headerMsgID      = "Nats-Msg-Id"
	headerExpectLast = "Nats-Expected-Last-Subject-Sequence"
	headerStreamSeq  = "Nats-Sequence"
	headerSubject    = "Nats-Subject"
)

// Batch is one message of a channel: consecutive frames.
type Batch struct {
	// Session and Channel are the owner of the frames. Both consist of letters, digits, '_', '-' and ':'.
	Session, Channel string
	// Epoch is the writer's epoch.
	Epoch int64
	// Seq is the number of the first frame, Count the number of frames. A batch without frames is
	// an epoch marker, and Seq is the number of the next frame.
	Seq   int64
	Count int
	// Body is the frames, separated by newlines. Readers own the slice.
	Body []byte
	// MsgID makes a second publish within the stream's duplicate window a no-op. With an empty MsgID each publish is
	// stored.
	MsgID string
	// ExpectLast makes Publish fail unless it is the place in the stream of the subject's last
	// message, 0 for a subject without messages. It is not stored.
	ExpectLast *uint64
	// StreamSeq is the message's place in the stream. Publish ignores it.
	StreamSeq uint64
}

// Next is the number of the frame after the batch.
func (b Batch) Next() int64 { return b.Seq + int64(b.Count) }

// Frames yields the frames from number from on, with their numbers. They are parts of Body.
func (b Batch) Frames(from int64) iter.Seq2[int64, []byte] {
	return func(yield func(int64, []byte) bool) {
		rest := b.Body
		for seq := b.Seq; seq < b.Next(); seq++ {
			frame, after, _ := bytes.Cut(rest, []byte{'\n'})
			rest = after
			if seq >= from && !yield(seq, frame) {
				return
			}
		}
	}
}

const maxToken = 128

// validToken reports whether s can be one part of a subject. Dots, wildcards and spaces have a meaning in NATS.
func validToken(s string) bool {
	if s == "" || len(s) > maxToken {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == ':':
		default:
			return false
		}
	}
	return true
}

func subject(session, channel string) (string, error) {
	if !validToken(session) || !validToken(channel) {
		return "", fault.New(fault.BadRequest, "%q is not the name of a session's channel.", session+"."+channel)
	}
	return subjectPrefix + session + "." + channel, nil
}

// check refuses batches that a reader could not split into frames.
func (b Batch) check() error {
	switch {
	case b.Seq < 0 || b.Count < 0 || b.Epoch < 0 || b.Next() < b.Seq:
		return fault.New(fault.Internal, "A batch of frames has a number that frames do not have.")
	case b.Count == 0 && len(b.Body) > 0, b.Count > 0 && bytes.Count(b.Body, []byte{'\n'}) != b.Count-1:
		return fault.New(fault.Internal, "A batch says it has %d frames and has others.", b.Count)
	}
	return nil
}

func (b Batch) header() nats.Header {
	h := nats.Header{
		headerEpoch: {strconv.FormatInt(b.Epoch, 10)},
		headerSeq:   {strconv.FormatInt(b.Seq, 10)},
		headerCount: {strconv.Itoa(b.Count)},
	}
	if b.MsgID != "" {
		h[headerMsgID] = []string{b.MsgID}
	}
	if b.ExpectLast != nil {
		h[headerExpectLast] = []string{strconv.FormatUint(*b.ExpectLast, 10)}
	}
	return h
}

// parse reads a message of the stream. ok is false for a message that no kaged writer made.
func parse(subject string, h nats.Header, body []byte, streamSeq uint64) (b Batch, ok bool) {
	session, channel, ok := splitSubject(subject)
	if !ok {
		return b, false
	}
	epoch, err1 := strconv.ParseInt(h.Get(headerEpoch), 10, 64)
	seq, err2 := strconv.ParseInt(h.Get(headerSeq), 10, 64)
	count, err3 := strconv.Atoi(h.Get(headerCount))
	b = Batch{
		Session: session, Channel: channel, Epoch: epoch, Seq: seq, Count: count, Body: body, MsgID: h.Get(headerMsgID),
		StreamSeq: streamSeq,
	}
	return b, err1 == nil && err2 == nil && err3 == nil && b.check() == nil
}

func splitSubject(subject string) (session, channel string, ok bool) {
	rest, ok := strings.CutPrefix(subject, subjectPrefix)
	session, channel, found := strings.Cut(rest, ".")
	return session, channel, ok && found && validToken(session) && validToken(channel)
}
