package box_test

import (
	"testing"
	"time"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// all sets every limit that a cgroup enforces.
var all = dsl.Limits{Memory: 512 << 20, PIDs: 200, CPU: 1.5}

// benchmarkLimited runs commands in a cage with limits, with a pause before each: moving a process into a cgroup by pid
// waits for an RCU grace period, which is long on an idle machine.
func benchmarkLimited(b *testing.B, limits dsl.Limits, idle time.Duration) {
	x := limited(b, limits)
	spec := core.Spec{Argv: []string{"/bin/true"}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}}
	var took time.Duration
	for b.Loop() {
		wait(idle)
		began := time.Now()
		p, err := x.Spawn(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		p.Copy(func(core.Stream, []byte) {})
		<-p.Exited()
		took += time.Since(began)
		if end := p.End(); end.Code != 0 || end.Lost || end.Hit != contract.ReasonNone {
			b.Fatalf("%+v", end)
		}
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N)/1000, "ms/exec")
}

func BenchmarkExecUnlimited(b *testing.B)    { benchmarkLimited(b, dsl.Limits{}, 0) }
func BenchmarkExecLimitsMemory(b *testing.B) { benchmarkLimited(b, dsl.Limits{Memory: all.Memory}, 0) }
func BenchmarkExecLimitsPIDs(b *testing.B)   { benchmarkLimited(b, dsl.Limits{PIDs: all.PIDs}, 0) }
func BenchmarkExecLimits(b *testing.B)       { benchmarkLimited(b, all, 0) }
func BenchmarkExecUnlimitedIdle(b *testing.B) {
	benchmarkLimited(b, dsl.Limits{}, 700*time.Millisecond)
}
func BenchmarkExecLimitsIdle(b *testing.B) { benchmarkLimited(b, all, 700*time.Millisecond) }

// BenchmarkCreateLimits makes cages with limits, beside BenchmarkCreate.
func BenchmarkCreateLimits(b *testing.B) {
	made := boxes(b, func(o *box.Options) { o.Cgroups = "kaged-bench-" + ident.New() + "-" })
	var took, ended time.Duration
	for b.Loop() {
		began := time.Now()
		x, err := made.Open(b.Context(),
			core.BoxSpec{ID: ident.New(), View: &cage.View{Limits: all}}, func(contract.Attempt) {})
		if err != nil {
			b.Fatal(err)
		}
		took += time.Since(began)
		began = time.Now()
		x.Close()
		ended += time.Since(began)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N)/1000, "ms/create")
	b.ReportMetric(float64(ended.Microseconds())/float64(b.N)/1000, "ms/end")
}
