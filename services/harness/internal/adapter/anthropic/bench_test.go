package anthropic_test

import (
	"encoding/json"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
)

// What a delta costs, beside what it would cost to let the SDK decode it; the package's documentation has the figures.
func BenchmarkDecode(b *testing.B) {
	suite.BenchmarkDecode(b, func(data []byte) error {
		var ev sdk.MessageStreamEventUnion
		return json.Unmarshal(data, &ev)
	})
}

// What a call costs whose conversation is long.
func BenchmarkRequest(b *testing.B) { suite.BenchmarkRequest(b) }
