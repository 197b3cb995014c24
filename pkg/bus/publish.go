package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kaged.dev/pkg/fault"
)

// headerRoom is the part of a message's size limit that is reserved for headers.
const headerRoom = 1024

// Ack is the answer for a stored batch.
type Ack struct {
	// StreamSeq is its place in the stream, which the subject's next ExpectLast must name.
	StreamSeq uint64
	// Duplicate is true if an earlier publish stored the batch.
	Duplicate bool
}

type pubAck struct {
	Seq       uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// MaxBody returns the maximum size of a batch's body in bytes, as reported by the server at the last connection.
func (f *Frames) MaxBody() int64 { return f.conn.MaxPayload() - headerRoom }

// Publish stores a batch and returns when the server has it. It fails with
//
//   - fault.StaleLease if ExpectLast is not the subject's last message and that message is not this batch: another
//     writer has taken over, or the stream is empty (details.last_seq is the place of the last message, or 0);
//   - fault.Unavailable (details.subsystem "bus") if the bus is away or did not answer: the batch may or may not have
//     been stored. Publishing the same batch again, with the same ExpectLast or MsgID, is safe and settles it;
//   - fault.PayloadTooLarge (details.limit_bytes) if the batch is larger than a message may be.
//
// It waits at most five seconds. Calls for one subject must follow each other; calls for different subjects need not.
func (f *Frames) Publish(ctx context.Context, b Batch) (Ack, error) {
	subj, err := subject(b.Session, b.Channel)
	if err != nil {
		return Ack{}, err
	}
	if err := b.check(); err != nil {
		return Ack{}, err
	}
	if limit := f.MaxBody(); limit > 0 && int64(len(b.Body)) > limit {
		return Ack{},
			fault.New(fault.PayloadTooLarge, "A batch of frames has %d bytes and NATS takes %d.", len(b.Body), limit).
				With("limit_bytes", limit)
	}
	ack, err := f.publishOnce(ctx, subj, b)
	if errors.Is(err, nats.ErrNoResponders) {
		// The subject has no listener, so the stream is gone. Only a publish that reached no server is sent again here.
		if err := f.ensure(ctx); err != nil {
			return Ack{}, err
		}
		ack, err = f.publishOnce(ctx, subj, b)
	}
	switch {
	case err != nil:
		return Ack{}, classify(ctx, err, "NATS did not confirm a message; it may or may not have been stored.")
	case ack.Error != nil:
		return f.refused(ctx, b, ack.Error)
	}
	return Ack{StreamSeq: ack.Seq, Duplicate: ack.Duplicate}, nil
}

func (f *Frames) publishOnce(ctx context.Context, subj string, b Batch) (pubAck, error) {
	var ack pubAck
	answer, err := f.conn.request(ctx, &nats.Msg{Subject: subj, Header: b.header(), Data: b.Body})
	if err != nil {
		return ack, err
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil || (ack.Seq == 0 && ack.Error == nil) {
		return ack, errors.Join(errors.New("the answer is not JetStream's"), err)
	}
	return ack, nil
}

// refused explains a refusal. Some servers check the last message before they look for duplicates, so a batch that is
// already stored is recognised here.
func (f *Frames) refused(ctx context.Context, b Batch, cause *jetstream.APIError) (Ack, error) {
	switch cause.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
	case jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return Ack{}, fault.Wrap(cause, fault.PayloadTooLarge, "A batch of frames is larger than the stream takes.").
			With("limit_bytes", f.MaxBody())
	default:
		return Ack{}, unavailable(cause, "NATS refused to store a message.")
	}
	tail, found, err := f.Tail(ctx, b.Session, b.Channel)
	if err != nil {
		return Ack{}, err
	}
	if found && same(tail, b) {
		return Ack{StreamSeq: tail.StreamSeq, Duplicate: true}, nil
	}
	return Ack{}, fault.Wrap(cause, fault.StaleLease, "Another process writes this session's %s channel.", b.Channel).
		With(detailLastSeq, int64(tail.StreamSeq)).With(detailEpoch, tail.Epoch)
}

// same reports whether a stored message is this batch. An epoch has one writer, which gives each number to one frame.
func same(stored, b Batch) bool {
	return stored.Epoch == b.Epoch && stored.Seq == b.Seq && stored.Count == b.Count && stored.MsgID == b.MsgID &&
		bytes.Equal(stored.Body, b.Body)
}
