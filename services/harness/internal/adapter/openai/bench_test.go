package openai_test

import (
	"encoding/json"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// BenchmarkDecode measures the cost of a delta, beside its cost with the SDK's decoder. The package's documentation
// has the figures.
func BenchmarkDecode(b *testing.B) {
	b.Run("responses", func(b *testing.B) {
		responsesSuite.BenchmarkDecode(b, func(data []byte) error {
			var ev responses.ResponseStreamEventUnion
			return json.Unmarshal(data, &ev)
		})
	})
	b.Run("chat", func(b *testing.B) {
		chatSuite.BenchmarkDecode(b, func(data []byte) error {
			var ev sdk.ChatCompletionChunk
			return json.Unmarshal(data, &ev)
		})
	})
}

// BenchmarkRequest measures the cost of a call with a long conversation.
func BenchmarkRequest(b *testing.B) {
	b.Run("responses", responsesSuite.BenchmarkRequest)
	b.Run("chat", chatSuite.BenchmarkRequest)
}
