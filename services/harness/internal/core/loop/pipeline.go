package loop

import (
	"context"
	"encoding/binary"
	"hash/maphash"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
)

// Call is a model call on its way through the pipeline. Processors may change Request. The model gets the pipeline's
// result, byte for byte.
type Call struct {
	// Step is the step, from 1. Again marks a further call in the same step: with a shortened conversation, or to
	// another target.
	Step  int
	Again bool
	// Alias is the model's alias; Target is the model that is asked.
	Alias  string
	Target llm.Target
	driver llm.Driver // of the target
	// Request is the request. Its Model is set per target, after the pipeline.
	Request llm.Request
	// Hash is the hash of the request's items after the last processor.
	Hash string
}

// Processor sees every model call of a run, and may change or stop it. An error ends the run.
type Processor interface {
	// ProcessInput is called once per run, before the first call.
	ProcessInput(ctx context.Context, call *Call) error
	// ProcessInputStep is called before every call.
	ProcessInputStep(ctx context.Context, call *Call) error
	// ProcessOutputChunk is called with each piece that the model writes, before it is sent on.
	ProcessOutputChunk(ctx context.Context, d contract.Delta) error
}

// pipeline is the list of processors in their order.
type pipeline []Processor

// input runs the processors on a call and returns its seal.
func (p pipeline) input(ctx context.Context, call *Call) (uint64, error) {
	if call.Step == 1 && !call.Again {
		for _, proc := range p {
			if err := proc.ProcessInput(ctx, call); err != nil {
				return 0, err
			}
		}
	}
	for _, proc := range p {
		if err := proc.ProcessInputStep(ctx, call); err != nil {
			return 0, err
		}
	}
	return whole(&call.Request), nil
}

func (p pipeline) output(ctx context.Context, d contract.Delta) error {
	for _, proc := range p {
		if err := proc.ProcessOutputChunk(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

var sealSeed = maphash.MakeSeed()

// whole returns a fingerprint of everything that the model gets of req. It is valid within this process and never
// stored: the loop uses it to detect a change of the request after the pipeline.
func whole(req *llm.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(sealSeed)
	s := sealer{h: &h}
	s.number(int(seal(req, len(req.Messages))))
	s.text(req.Note)
	return h.Sum64()
}

// seal returns the fingerprint of a request's head and its first n messages, without its note.
func seal(req *llm.Request, n int) uint64 {
	var h maphash.Hash
	h.SetSeed(sealSeed)
	s := sealer{h: &h}
	s.number(req.MaxOutputTokens)
	s.text(req.CacheKey)
	s.number(len(req.System))
	for _, t := range req.System {
		s.text(t)
	}
	s.number(len(req.Tools))
	for _, t := range req.Tools {
		s.text(t.Name)
		s.text(t.Description)
		s.bytes(t.Schema)
	}
	s.number(n)
	for _, m := range req.Messages[:n] {
		s.message(m)
	}
	return h.Sum64()
}

// sealer hashes values with their lengths, so that different sequences hash different bytes.
type sealer struct {
	h   *maphash.Hash
	buf [8]byte
}

func (s *sealer) number(n int) {
	binary.LittleEndian.PutUint64(s.buf[:], uint64(n))
	s.h.Write(s.buf[:])
}

func (s *sealer) text(t string) {
	s.number(len(t))
	s.h.WriteString(t)
}

func (s *sealer) bytes(b []byte) {
	s.number(len(b))
	s.h.Write(b)
}

func (s *sealer) message(m llm.Message) {
	s.text(string(m.Role))
	s.number(len(m.Blocks))
	for _, b := range m.Blocks {
		switch {
		case b.Text != nil:
			s.number(1)
			s.text(b.Text.Text)
		case b.Thinking != nil:
			s.number(2)
			s.text(b.Thinking.Text)
			s.bytes(b.Thinking.Opaque)
			s.text(b.Thinking.Driver)
		case b.Call != nil:
			s.number(3)
			s.text(b.Call.ID)
			s.text(b.Call.Name)
			s.text(b.Call.Input)
		case b.Result != nil:
			s.number(4)
			s.text(b.Result.CallID)
			s.text(b.Result.Name)
			s.text(b.Result.Content)
			if b.Result.IsError {
				s.number(1)
			} else {
				s.number(0)
			}
		default:
			s.number(0)
		}
	}
}
