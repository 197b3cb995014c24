package e2e_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"kaged.dev/test/e2e/kagedtest"
)

// asked matches the end of a question, with its further answers.
var asked = regexp.MustCompile(`\[y/N[^\]]*\] $`)

// answerQuestion is the script command `[!] answer LINE COMMAND [ARG...]`. It runs the command on a terminal, types
// LINE when the terminal shows a question, and writes the terminal's screen to $WORK/tty, stdout to $WORK/out and
// stderr to $WORK/err. testscript's own ttyin types before the command starts, and kaged discards keys typed before a
// question.
func answerQuestion(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] answer LINE COMMAND [ARG...]")
	}
	master, tty, err := pty.Open()
	ts.Check(err)
	defer master.Close()
	defer tty.Close()
	ts.Check(pty.Setsize(tty, &pty.Winsize{Rows: 40, Cols: 400}))

	cmd := exec.Command(lookPath(ts, args[1]), args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, kv := range ts.Value(environment{}).(*testscript.Env).Vars {
		name, _, _ := strings.Cut(kv, "=")
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, create(ts, "out"), create(ts, "err")

	shown := &kagedtest.Log{}
	ended := make(chan error, 1)
	ts.Check(cmd.Start())
	go func() { ended <- cmd.Wait() }()
	go func() { _, _ = io.Copy(shown, master) }() // ends when the master is closed
	typed := false
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(kagedtest.Limit)
	for {
		select {
		case <-poll.C:
			if !typed && asked.MatchString(shown.String()) {
				typed = true
				_, err := io.WriteString(master, args[0]+"\r")
				ts.Check(err)
			}
			continue
		case <-limit:
			_ = cmd.Process.Kill()
			ts.Fatalf("%s does not end; the terminal shows:\n%s", args[1], shown.String())
		case err = <-ended:
		}
		break
	}
	ts.Check(os.WriteFile(ts.MkAbs("tty"), []byte(shown.String()), 0o600))
	switch {
	case !typed:
		ts.Fatalf("%s asked no question; the terminal shows:\n%s", args[1], shown.String())
	case err != nil && !neg:
		ts.Fatalf("%s failed: %v\n%s", args[1], err, ts.ReadFile("err"))
	case err == nil && neg:
		ts.Fatalf("%s succeeded", args[1])
	}
}

func create(ts *testscript.TestScript, name string) *os.File {
	f, err := os.Create(ts.MkAbs(name))
	ts.Check(err)
	ts.Defer(func() { f.Close() })
	return f
}

// lookPath finds a command in the script's PATH.
func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	ts.Fatalf("%s is not in PATH", name)
	return ""
}
