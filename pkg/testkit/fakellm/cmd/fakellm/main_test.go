package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An environment variable makes the test's own binary run the program.
func TestMain(m *testing.M) {
	if os.Getenv("FAKELLM_RUN_MAIN") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

func command(t *testing.T, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), "FAKELLM_RUN_MAIN=1")
	return cmd
}

// The program prints its URL, answers by its script, and ends cleanly when it is stopped, hanging answers included.
func TestRun(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("-- llm/1 --\nsay from the file\n-- llm/2 --\nsay never ends\nhang\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "--listen", "127.0.0.1:0", "--script", script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"from", "never"} {
		body := strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
		resp, err := http.Post(strings.TrimSpace(url)+"/v1/chat/completions", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() && !strings.Contains(lines.Text(), want) {
		}
		if !strings.Contains(lines.Text(), want) {
			t.Errorf("%q was not said", want)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Errors of the start are printed on stderr.
func TestRefused(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("-- llm/1 --\nshout\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"unknown verb": {"--script", bad}, "no such file": {"--script", bad + "x"}, "address": {"--listen", "nowhere"},
	} {
		out, err := command(t, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
}
