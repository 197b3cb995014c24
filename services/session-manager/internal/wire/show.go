package wire

import (
	"unicode/utf8"

	"kaged.dev/pkg/fault"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sessionmanagerv1 "kaged.dev/proto/gen/kaged/sessionmanager/v1"
	"kaged.dev/services/session-manager/internal/core/transcript"
)

// FrameUsage returns token counts as the API shows them, nil for nil.
func FrameUsage(u *transcript.Usage) *sessionmanagerv1.FrameUsage {
	if u == nil {
		return nil
	}
	return &sessionmanagerv1.FrameUsage{
		Input: u.Input, Output: u.Output, Reasoning: u.Reasoning, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
	}
}

// FrameStats returns measurements as the API shows them, nil for nil.
func FrameStats(s *transcript.Stats) *sessionmanagerv1.FrameStats {
	if s == nil {
		return nil
	}
	return &sessionmanagerv1.FrameStats{Ttft: s.TTFT, Duration: s.Duration, Tps: s.TPS, Cost: Cost(s.Cost)}
}

// Error returns a failure as the API shows it, nil for nil.
func Error(e *fault.Error) *commonv1.Error {
	if e == nil {
		return nil
	}
	return e.Proto()
}

// Whole returns how many of the first n bytes of s are whole characters.
func Whole(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}
