package compact_test

import (
	"testing"

	"kaged.dev/services/harness/internal/core/compact"
)

// An estimate is within a third of the counts of today's tokenizers, for prose, code, JSON and scripts without
// spaces.
func TestTokens(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want int64 // by o200k_base
	}{
		"empty":  {"", 0},
		"prose":  {"The quick brown fox jumps over the lazy dog near the river bank.", 14},
		"code":   {"func main() {\n\tfmt.Println(\"hello, world\")\n}\n", 15},
		"json":   {`{"path":"internal/app.go","limit":200,"recursive":true}`, 16},
		"number": {"1234567890123456", 6},
		"cjk":    {"我们需要在测试中使用真实的数据库", 13},
	} {
		t.Run(name, func(t *testing.T) {
			got := compact.Tokens(c.text)
			if 3*got < 2*c.want || 3*got > 4*c.want+3 {
				t.Errorf("got %d tokens, want about %d", got, c.want)
			}
		})
	}
}

// After three answered requests the estimate of the next one follows the provider's counts, at any ratio to the plain
// estimate.
func TestMeter(t *testing.T) {
	for _, ratio := range []float64{0.7, 1, 1.4} {
		var m compact.Meter
		plain := int64(10_000)
		for range 3 {
			m.Counted(plain, int64(float64(plain)*ratio))
			plain += 5_000
		}
		want := float64(plain) * ratio
		if got := float64(m.Tokens(plain)); got < 0.95*want || got > 1.05*want {
			t.Errorf("ratio %v: got %v, want about %v", ratio, got, want)
		}
		if missed, known := m.Error(); !known || missed > 0.5 {
			t.Errorf("ratio %v: error %v, known %v", ratio, missed, known)
		}
	}
}

// An impossible count, such as that of a provider without usage reports, changes no estimate.
func TestMeterIgnoresNonsense(t *testing.T) {
	var m compact.Meter
	for _, counted := range []int64{0, -1, 1, 1 << 40} {
		m.Counted(1000, counted)
	}
	if got := m.Tokens(1000); got != 1000 {
		t.Errorf("got %d, want the plain estimate", got)
	}
}
