package anthropic_test

import (
	"encoding/json"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
)

// BenchmarkDecode measures the cost of a delta, beside its cost with the SDK's decoder. The package's documentation
// has the figures.
func BenchmarkDecode(b *testing.B) {
	suite.BenchmarkDecode(b, func(data []byte) error {
		var ev sdk.MessageStreamEventUnion
		return json.Unmarshal(data, &ev)
	})
}

// BenchmarkRequest measures the cost of a call with a long conversation.
func BenchmarkRequest(b *testing.B) { suite.BenchmarkRequest(b) }
