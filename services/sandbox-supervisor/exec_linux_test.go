package sandboxsupervisor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kaged.dev/pkg/fault"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
	sandboxsupervisorv1 "kaged.dev/proto/gen/kaged/sandboxsupervisor/v1"
)

// A command with a terminal has a real one: its session's controlling terminal, of the requested size, with both
// outputs in one stream in their order (T-SHELL-03, T-SHELL-16).
func TestTerminal(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	r := begin(
		t,
		client,
		shell(
			t,
			`test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size </dev/tty; echo out; echo err >&2; exit 42`,
		),
	)
	if r.started.GetPid() <= 0 || r.started.GetStartedAt() <= 0 || len(r.started.GetExecId()) != 26 {
		t.Errorf("started is %v", r.started)
	}
	exit := r.wait()
	if got, want := r.stdout.String(), "terminal\r\n24 80\r\nout\r\nerr\r\n"; got != want || r.stderr.Len() > 0 {
		t.Errorf("output is %q and %q, want %q", got, r.stderr.String(), want)
	}
	if exit.GetExitCode() != 42 || exit.GetSignal() != "" || exit.GetReason() != 0 {
		t.Errorf("the end is %v", exit)
	}
}

// Without a terminal there are three separate pipes, and standard input ends when the caller ends it, by a request or
// by closing its half of the stream (T-SHELL-02).
func TestPipes(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	r := begin(t, client, shell(t, `test -t 0 || test -t 1 || test -t 2 || echo pipes; cat; echo err >&2`, pipes))
	r.write("one\n")
	r.until("one\n")
	r.write("two\n")
	r.closeStdin()
	r.write("dropped\n")
	r.wait()
	if r.stdout.String() != "pipes\none\ntwo\n" || r.stderr.String() != "err\n" {
		t.Errorf("output is %q and %q", r.stdout.String(), r.stderr.String())
	}
	r = begin(t, client, shell(t, "cat", pipes))
	r.write("half")
	if err := r.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if r.wait(); r.stdout.String() != "half" {
		t.Errorf("output is %q", r.stdout.String())
	}
}

// On a terminal the end of standard input is the end-of-file character, also in the middle of a line.
func TestEndOfInputOnTerminal(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	for _, input := range []string{"", "line\n", "no end of line"} {
		r := begin(t, client, shell(t, "stty -echo; cat; echo done"))
		if input != "" {
			r.write(input)
		}
		r.closeStdin()
		r.wait()
		if want := strings.ReplaceAll(input, "\n", "\r\n") + "done\r\n"; !strings.HasSuffix(r.stdout.String(), want) {
			t.Errorf("after %q: output is %q", input, r.stdout.String())
		}
	}
}

// The end of a command is reported as by shells (T-SHELL-04).
func TestExitCodes(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	for command, want := range map[string]struct {
		code   int32
		signal string
	}{
		"true": {0, ""}, "exit 255": {255, ""}, "kill -KILL $$": {137, "SIGKILL"}, "kill -TERM $$": {143, "SIGTERM"},
		"kill -HUP $$": {129, "SIGHUP"}, "kill -40 $$": {168, "SIG40"},
	} {
		for _, kind := range []func(*sandboxsupervisorv1.ExecStart){pipes, timeout(60_000)} {
			exit := begin(t, client, shell(t, command, kind)).wait()
			if exit.GetExitCode() != want.code || exit.GetSignal() != want.signal || exit.GetReason() != 0 {
				t.Errorf("%s ended with %v", command, exit)
			}
		}
	}
}

// A command gets exactly its requested environment, its three files, and no ignored or blocked signal.
func TestNothingIsInherited(t *testing.T) {
	t.Setenv("KAGED_SECRET", "of the service")
	client := serve(t, nil)
	start := shell(t, "", env("A", "1"), env("EMPTY", ""), env("Ü", "ß\n=x"))
	start.Argv = []string{"env", "-0"}
	r := begin(t, client, start)
	r.wait()
	got := strings.Split(strings.TrimSuffix(strings.ReplaceAll(r.stdout.String(), "\r\n", "\n"), "\x00"), "\x00")
	want := []string{"A=1", "EMPTY=", "PATH=/usr/bin:/bin", "Ü=ß\n=x"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the environment is %q, want %q", got, want)
	}
	mask := "0" + strconv.FormatInt(0o1000|int64(currentUmask()), 8)[1:]
	for _, c := range []struct{ argv, want []string }{
		{[]string{"ls", "/proc/self/fd"}, []string{"0", "1", "2", "3"}}, // the last descriptor is the folder being read
		{
			[]string{"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"},
			[]string{"SigBlk:", strings.Repeat("0", 16), "SigIgn:", strings.Repeat("0", 16)},
		},
		{[]string{"grep", "-E", "^Umask", "/proc/self/status"}, []string{"Umask:", mask}},
	} {
		start.Argv = c.argv
		r := begin(t, client, start)
		r.wait()
		if got := strings.Fields(r.stdout.String()); strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%v wrote %q, want %q", c.argv, got, c.want)
		}
	}
}

// The program is looked up in the PATH of the command's own environment, relative to its working folder (T-SHELL-05).
func TestLookup(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	start := shell(t, "")
	for _, dir := range []string{"bin", "other"} {
		if err := os.Mkdir(filepath.Join(start.GetCwd(), dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(start.GetCwd(), name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("bin/hello", "#!/bin/sh\necho bin \"$0\" in \"$(pwd)\"\n", 0o755)
	write("hello", "#!/bin/sh\necho here\n", 0o755)
	write("other/hello", "not executable", 0o644)
	write("interpreter", "#!/no/such/interpreter\n", 0o755)
	write("text", "just text", 0o755)
	dir := start.GetCwd()
	for _, c := range []struct{ path, program, want string }{
		{"/nowhere:bin", "hello", "bin " + dir + "/bin/hello in " + dir},
		{dir + "/bin", "hello", "bin " + dir + "/bin/hello in " + dir},
		{"other::bin", "hello", "here"},
		{"", "./bin/hello", "bin ./bin/hello in " + dir},
		{"", dir + "/hello", "here"},
	} {
		start.Env, start.Argv = map[string]string{"PATH": c.path}, []string{c.program}
		if c.path == "" {
			start.Env = map[string]string{"PWD": "x"}
		}
		r := begin(t, client, start)
		if r.wait(); strings.TrimSpace(r.stdout.String()) != c.want {
			t.Errorf("%s in %q wrote %q, want %q", c.program, c.path, r.stdout.String(), c.want)
		}
	}
	start.Env = map[string]string{"PATH": "other:bin"}
	for program, words := range map[string]string{
		"nothing": "no such file or directory", "./nothing": "no such file or directory", "./bin": "permission denied",
		"./other/hello": "permission denied", "./interpreter": "no such file or directory", "./text": "exec format error",
		"./hello/x": "not a directory",
	} {
		start.Argv = []string{program}
		refused(t, client, start, fault.ShellSpawnFailed, "The program "+program+" cannot be started: "+words)
	}
}

// Invalid requests are refused before any start, in a sentence that names the error.
func TestRefusals(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{"MAX_COMMAND_BYTES": "200000", "MAX_COMMAND_STRINGS": "100"})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		words  string
		change func(*sandboxsupervisorv1.ExecStart)
	}{
		"no owner":      {"needs an owner", func(s *sandboxsupervisorv1.ExecStart) { s.Owner = nil }},
		"no program":    {"needs a program", func(s *sandboxsupervisorv1.ExecStart) { s.Argv = nil }},
		"empty program": {"needs a program", func(s *sandboxsupervisorv1.ExecStart) { s.Argv[0] = "" }},
		"NUL in argument": {
			"Argument 1 is longer than 131071 bytes, or holds a NUL byte", func(s *sandboxsupervisorv1.ExecStart) {
				s.Argv[1] = "a\x00b"
			},
		},
		"long argument": {
			"Argument 2 is longer", func(s *sandboxsupervisorv1.ExecStart) { s.Argv[2] = strings.Repeat("x", 131072) },
		},
		"much in all": {"are allowed", func(s *sandboxsupervisorv1.ExecStart) {
			s.Argv = append(s.Argv, strings.Repeat("x", 131000), strings.Repeat("y", 131000))
		}},
		"many strings": {
			"100 are allowed", func(s *sandboxsupervisorv1.ExecStart) { s.Argv = append(s.Argv, make([]string, 100)...) },
		},
		"relative folder": {`"work" is not an absolute path`, func(s *sandboxsupervisorv1.ExecStart) { s.Cwd = "work" }},
		"no folder":       {`"" is not an absolute path`, func(s *sandboxsupervisorv1.ExecStart) { s.Cwd = "" }},
		"NUL in folder":   {"is not a path", func(s *sandboxsupervisorv1.ExecStart) { s.Cwd = "/a\x00b" }},
		"missing folder": {
			"/no/such/folder cannot be used: no such file or directory", func(s *sandboxsupervisorv1.ExecStart) {
				s.Cwd = "/no/such/folder"
			},
		},
		"file for folder": {
			file + " cannot be used: not a directory", func(s *sandboxsupervisorv1.ExecStart) { s.Cwd = file },
		},
		"empty variable":   {`a variable called ""`, env("", "x")},
		"= in variable":    {`a variable called "A=B"`, env("A=B", "x")},
		"NUL in variable":  {`a variable called "A\x00B"`, env("A\x00B", "x")},
		"NUL in value":     {"The variable A is longer", env("A", "x\x00y")},
		"long value":       {"The variable A is longer", env("A", strings.Repeat("x", 131072))},
		"negative timeout": {"time limit", timeout(-1)},
		"endless timeout":  {"time limit", timeout(1 << 62)},
		"large terminal": {
			"larger than", func(s *sandboxsupervisorv1.ExecStart) { s.Terminal = &sandboxsupervisorv1.Terminal{Cols: 1 << 20} },
		},
	} {
		t.Run(name, func(t *testing.T) { refused(t, client, shell(t, "true", c.change), fault.InvalidParams, c.words) })
	}
	stream, err := client.Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&sandboxsupervisorv1.ExecRequest{
		Request: &sandboxsupervisorv1.ExecRequest_Stdin{},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, fault.BadRequest) {
		t.Errorf("a stream that starts with input: %v", err)
	}
	if _, err := client.EndOwner(t.Context(), &sandboxsupervisorv1.EndOwnerRequest{}); !errors.Is(
		err,
		fault.InvalidParams,
	) {
		t.Errorf("ending nobody's commands: %v", err)
	}
}

// A command with a cage policy runs in its own cage: it works in its project, sees no other folder, and the cage ends
// with it. If the operator has disabled cages it runs without one (decision 17).
func TestCages(t *testing.T) {
	t.Parallel()
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "secret"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	caged := func(s *sandboxsupervisorv1.ExecStart) {
		s.ProjectRoot = s.Cwd
		s.Cage = &commonv1.CagePolicy{Fs: []*commonv1.CageMount{{Mode: "rw", Path: "project:/"}}}
	}
	client := serve(t, nil)
	for _, kind := range []func(*sandboxsupervisorv1.ExecStart){pipes, timeout(60_000)} {
		r := begin(t, client, shell(t, "id -u; echo x >new; ls "+other+"/secret; exit 3", caged, kind))
		exit := r.wait()
		if out := r.stdout.String() + r.stderr.String(); exit.GetExitCode() != 3 || !strings.HasPrefix(out, "1000") ||
			!strings.Contains(out, "No such file") {
			t.Errorf("the end is %v, the output %q", exit, out)
		}
	}
	if cages, err := client.ListCages(t.Context(), &sandboxsupervisorv1.ListCagesRequest{}); err != nil ||
		len(cages.GetCages()) != 0 {
		t.Errorf("cages are left: %v, %v", cages, err)
	}
	refused(
		t,
		client,
		shell(t, "true", caged, func(s *sandboxsupervisorv1.ExecStart) { s.Cwd = other }),
		fault.InvalidParams,
		"cannot be used",
	)
	r := begin(t, serve(t, settings{"NO_SANDBOX": "1"}), shell(t, "ls "+other, caged))
	if exit := r.wait(); exit.GetExitCode() != 0 || !strings.Contains(r.stdout.String(), "secret") {
		t.Errorf("the end is %v", exit)
	}
}

// An invalid request while the command runs ends the stream with a reason, and the command with it.
func TestBadRequestsWhileRunning(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	for name, c := range map[string]struct {
		code fault.Code
		ask  func(*running)
	}{
		"signal":       {fault.InvalidParams, func(r *running) { r.signal("SIGNOTHING") }},
		"lower case":   {fault.InvalidParams, func(r *running) { r.signal("sigint") }},
		"number":       {fault.InvalidParams, func(r *running) { r.signal("9") }},
		"large resize": {fault.InvalidParams, func(r *running) { r.resize(1<<16, 1) }},
		"second start": {fault.BadRequest, func(r *running) {
			r.send(&sandboxsupervisorv1.ExecRequest{Request: &sandboxsupervisorv1.ExecRequest_Start{Start: shell(t, "true")}})
		}},
		"nothing": {fault.BadRequest, func(r *running) { r.send(&sandboxsupervisorv1.ExecRequest{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := begin(t, client, shell(t, "sleep 1000"))
			c.ask(r)
			var err error
			for err == nil {
				_, err = r.next()
			}
			if !errors.Is(err, c.code) {
				t.Errorf("the stream ended with %v, want %s", err, c.code)
			}
			gone(t, int(r.started.GetPid()))
		})
	}
	r := begin(t, client, shell(t, "sleep 1000", pipes))
	r.resize(10, 10)
	if _, err := r.next(); !errors.Is(err, fault.InvalidParams) {
		t.Errorf("resizing pipes: %v", err)
	}
}

// A terminal changes its size while the command runs, and the command is notified.
func TestResize(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	r := begin(t, client, shell(t, `trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.01; done`,
		func(s *sandboxsupervisorv1.ExecStart) {
			s.Terminal = &sandboxsupervisorv1.Terminal{Cols: 100, Rows: 30}
		}))
	r.until("30 100")
	r.resize(120, 0)
	if r.wait(); !strings.Contains(r.stdout.String(), "24 120") {
		t.Errorf("output is %q", r.stdout.String())
	}
}

// A signal reaches the whole process group.
func TestSignals(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	r := begin(
		t,
		client,
		shell(
			t,
			`trap 'echo parent; wait; exit 7' USR1; (trap 'echo child; exit' USR1; echo up; while :; do sleep 0.01; done) & `+
				`wait; wait`,
		),
	)
	r.until("up")
	r.signal("SIGUSR1")
	exit := r.wait()
	if out := r.stdout.String(); !strings.Contains(out, "parent") || !strings.Contains(out, "child") ||
		exit.GetExitCode() != 7 {
		t.Errorf("output is %q, the end %v", out, exit)
	}
	start := shell(t, "")
	start.Argv = []string{"sleep", "1000"} // a shell may delay a signal that arrives while it starts its first program
	r = begin(t, client, start)
	r.signal("SIGINT")
	if exit := r.wait(); exit.GetSignal() != "SIGINT" || exit.GetExitCode() != 130 || exit.GetReason() != 0 {
		t.Errorf("the end is %v", exit)
	}
}

// A signal overtakes unread standard input, up to the size of its buffer.
func TestSignalPassesInput(t *testing.T) {
	t.Parallel()
	client := serve(t, nil)
	for _, kind := range []func(*sandboxsupervisorv1.ExecStart){pipes, timeout(0)} {
		r := begin(t, client, shell(t, "stty raw -echo 2>/dev/null; echo up; exec sleep 1000", kind))
		r.until("up")
		r.write(strings.Repeat("x", 200<<10))
		r.signal("SIGTERM")
		if exit := r.wait(); exit.GetSignal() != "SIGTERM" {
			t.Errorf("the end is %v", exit)
		}
	}
}

// Long input arrives completely, however slowly it is read.
func TestMuchInput(t *testing.T) {
	t.Parallel()
	client := serve(t, settings{"STDIN_BYTES": "1000"})
	r := begin(t, client, shell(t, "echo up; sleep 0.05; wc -c", pipes))
	r.until("up")
	const size = 3 << 20
	go func() {
		for range 3 {
			r.write(strings.Repeat("x", size/3))
		}
		r.closeStdin()
	}()
	if r.wait(); strings.Fields(r.stdout.String())[1] != strconv.Itoa(size) {
		t.Errorf("output is %q, want %d", r.stdout.String(), size)
	}
}
