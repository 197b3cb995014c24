package openai_test

import (
	"encoding/json"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// What a delta costs, beside what it would cost to let the SDK decode it; the package's documentation has the figures.
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

// What a call costs whose conversation is long.
func BenchmarkRequest(b *testing.B) {
	b.Run("responses", responsesSuite.BenchmarkRequest)
	b.Run("chat", chatSuite.BenchmarkRequest)
}
