package stored

import (
	"google.golang.org/protobuf/proto"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/contract/harnesswire"
	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/llmproto"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
	storagev1 "kaged.dev/proto/gen/kaged/sessionmanager/storage/v1"
)

// Turn returns a turn in its stored form.
func Turn(t contract.Turn) ([]byte, error) { return encode(harnesswire.Turn(t), new(storagev1.Turn)) }

// FromTurn is the reverse of [Turn].
func FromTurn(body []byte) (contract.Turn, error) {
	var t harnessv1.Turn
	if err := decode(body, new(storagev1.Turn), &t); err != nil {
		return contract.Turn{}, err
	}
	return harnesswire.FromTurn(&t), nil
}

// Results returns the results of a step in their stored form.
func Results(results []llm.ToolResult) ([]byte, error) {
	return encode(llmproto.Results(results), new(storagev1.Message))
}

// FromResults is the reverse of [Results].
func FromResults(body []byte) ([]llm.ToolResult, error) {
	var m harnessv1.Message
	if err := decode(body, new(storagev1.Message), &m); err != nil {
		return nil, err
	}
	return llmproto.FromResults(&m), nil
}

// Snapshot returns a compiled project in its stored form, from the bytes that the harness receives.
func Snapshot(compiled []byte) ([]byte, error) {
	return recast(compiled, new(storagev1.CompiledProject))
}

// FromSnapshot is the reverse of [Snapshot].
func FromSnapshot(body []byte) ([]byte, error) { return recast(body, new(storagev1.CompiledProject)) }

// encode returns a wire message as the bytes of a storage message.
func encode(wire, storage proto.Message) ([]byte, error) {
	data, err := deterministic.Marshal(wire)
	if err != nil {
		return nil, err
	}
	return recast(data, storage)
}

// decode reads the bytes of a storage message as a wire message.
func decode(body []byte, storage, wire proto.Message) error {
	data, err := recast(body, storage)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data, wire)
}

// recast drops the fields of data that storage does not declare. Equal values have equal bytes.
func recast(data []byte, storage proto.Message) ([]byte, error) {
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, storage); err != nil {
		return nil, err
	}
	return deterministic.Marshal(storage)
}

var deterministic = proto.MarshalOptions{Deterministic: true}
