package sandboxsupervisor_test

import (
	"os/exec"
	"testing"

	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// BenchmarkForkExec is the baseline: fork and exec of the same program from this process.
func BenchmarkForkExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkExec(b *testing.B, set settings, others int, change ...func(*sandboxsupervisorv1.ExecStart)) {
	client := serve(b, set)
	for range others {
		begin(b, client, shell(b, "sleep 1000 & echo up; wait")).until("up")
	}
	start := shell(b, "", change...)
	start.Argv = []string{"/bin/true"}
	begin(b, client, start).wait() // starts the shim
	for b.Loop() {
		if exit := begin(b, client, start).wait(); exit.GetExitCode() != 0 {
			b.Fatal(exit)
		}
	}
}

var noCgroups = settings{"CGROUPS": "off"}

func BenchmarkExecTerminal(b *testing.B)         { benchmarkExec(b, nil, 0) }
func BenchmarkExecTerminalNoCgroup(b *testing.B) { benchmarkExec(b, noCgroups, 0) }
func BenchmarkExecPipes(b *testing.B)            { benchmarkExec(b, nil, 0, pipes) }
func BenchmarkExecPipesNoCgroup(b *testing.B)    { benchmarkExec(b, noCgroups, 0, pipes) }

// Beside other commands the shim has children when a command ends, and must search for the command's orphans.
func BenchmarkExecBesideOthers(b *testing.B)         { benchmarkExec(b, nil, 20) }
func BenchmarkExecBesideOthersNoCgroup(b *testing.B) { benchmarkExec(b, noCgroups, 20) }

func benchmarkOutput(b *testing.B, change ...func(*sandboxsupervisorv1.ExecStart)) {
	const size = 16 << 20
	client := serve(b, nil)
	start := shell(b, "head -c 16777216 /dev/zero", change...)
	b.SetBytes(size)
	for b.Loop() {
		r, total := begin(b, client, start), 0
		for {
			event, err := r.stream.Recv()
			if err != nil {
				b.Fatal(err)
			}
			if event.GetExited() != nil {
				break
			}
			total += len(event.GetOutput().GetData())
		}
		if total != size {
			b.Fatalf("%d bytes arrived", total)
		}
	}
}

func BenchmarkOutputTerminal(b *testing.B) { benchmarkOutput(b) }
func BenchmarkOutputPipes(b *testing.B)    { benchmarkOutput(b, pipes) }
