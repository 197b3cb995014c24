package box_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/dsl"
	"kaged.dev/pkg/ident"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
	"kaged.dev/services/sandbox-supervisor/internal/core"
)

// BenchmarkForkExec is the baseline: fork and exec of the same program from this process.
func BenchmarkForkExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkExec(b *testing.B, change ...func(*core.Spec)) {
	dir := project(b)
	x := open(b, boxes(b), rw(dir))
	spec := core.Spec{Argv: []string{"/bin/true"}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}}
	for _, c := range change {
		c(&spec)
	}
	for b.Loop() {
		p, err := x.Spawn(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		p.Copy(func(core.Stream, []byte) {})
		<-p.Exited()
		if end := p.End(); end.Code != 0 || end.Lost {
			b.Fatal(end)
		}
	}
}

// BenchmarkExecPipes runs a command in an existing cage.
func BenchmarkExecPipes(b *testing.B) { benchmarkExec(b) }

func BenchmarkExecTerminal(b *testing.B) {
	benchmarkExec(b, func(s *core.Spec) { s.Terminal = &core.Size{Cols: 80, Rows: 24} })
}

// benchmarkCreate makes cages, with a pause of idle before each.
func benchmarkCreate(b *testing.B, idle time.Duration) {
	dir := project(b)
	benchmarkCreateOf(b, idle, &cage.View{Root: dir, Grants: []cage.Grant{rw(dir)}})
}

func benchmarkCreateOf(b *testing.B, idle time.Duration, view *cage.View) {
	all := boxes(b, func(o *box.Options) { o.Dir = b.TempDir() })
	create := func() core.Box {
		x, err := all.Open(b.Context(), core.BoxSpec{ID: ident.New(), View: view}, func(contract.Attempt) {})
		if err != nil {
			b.Fatal(err)
		}
		return x
	}
	create().Close() // warms up the parts that are made once
	var took, ended time.Duration
	for b.Loop() {
		wait(idle)
		began := time.Now()
		x := create()
		took += time.Since(began)
		began = time.Now()
		x.Close()
		ended += time.Since(began)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N)/1000, "ms/create")
	b.ReportMetric(float64(ended.Microseconds())/float64(b.N)/1000, "ms/close")
}

// wait pauses for d: the pause is part of the benchmark's load, not a wait for an event.
func wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

func BenchmarkCreate(b *testing.B) { benchmarkCreate(b, 0) }

// BenchmarkCreateProject makes a cage of a whole project with its three dozen protected names, all of them missing.
func BenchmarkCreateProject(b *testing.B) {
	view, err := cage.Compile(&dsl.Cage{FS: []dsl.Mount{{Mode: "rw", Path: "project:/"}}}, project(b))
	if err != nil {
		b.Fatal(err)
	}
	benchmarkCreateOf(b, 0, view)
}

func BenchmarkCreateIdle(b *testing.B) { benchmarkCreate(b, time.Second) }

// BenchmarkHundred makes a hundred cages at once: it measures the time until all are ready, and the resident memory of
// each init.
func BenchmarkHundred(b *testing.B) {
	dir := project(b)
	all := boxes(b)
	for b.Loop() {
		cages := make([]core.Box, 100)
		failed := make(chan error, len(cages))
		for i := range cages {
			go func() {
				var err error
				spec := core.BoxSpec{ID: ident.New(), View: &cage.View{Root: dir, Grants: []cage.Grant{rw(dir)}}}
				cages[i], err = all.Open(b.Context(), spec, func(contract.Attempt) {})
				failed <- err
			}()
		}
		for range cages {
			if err := <-failed; err != nil {
				b.Fatal(err)
			}
		}
		total := 0
		for _, x := range cages {
			total += resident(b, box.InitOf(x))
		}
		b.ReportMetric(float64(total)/float64(len(cages))/1024, "MB/cage")
		for _, x := range cages {
			x.Close()
		}
	}
}

// resident returns the resident memory of a process in KiB.
func resident(t testing.TB, pid int) (kib int) {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	kib, _ = strconv.Atoi(strings.Fields(rest)[0])
	return kib
}
