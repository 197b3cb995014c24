package kagedtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Block returns the first code block in a language, such as sh, below a heading of a Markdown file of the repository.
func Block(t testing.TB, file, heading, language string) string {
	t.Helper()
	text := Read(t, repository(t), file)
	_, section, found := strings.Cut(text, "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, block, fenced := strings.Cut(section, "\n```"+language+"\n")
	block, _, closed := strings.Cut(block, "\n```\n")
	if !found || !fenced || !closed {
		t.Fatalf("%s has no block in %s below %q", file, language, heading)
	}
	return block + "\n"
}

// Newcomer is a person with a clone of the repository, kaged in PATH, and a folder beside the clone.
type Newcomer struct {
	// Dir is the folder; the repository is ../kaged.
	Dir string
	env []string
}

// Newcomer returns a newcomer in a fresh folder who uses the world's daemon. Go finds modules in its
// cache before it asks its proxies, npm finds packages in its cache only. extra are further variables.
func (w *World) Newcomer(t testing.TB, extra ...string) *Newcomer {
	t.Helper()
	home := t.TempDir()
	n := &Newcomer{Dir: filepath.Join(home, "diff")}
	Write(t, n.Dir, ".empty", "")
	if err := os.Symlink(repository(t), filepath.Join(home, "kaged")); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kaged := filepath.Join(home, "bin", "kaged")
	Write(t, home, "bin/kaged", fmt.Sprintf("#!/bin/sh\n%s=kaged exec %q \"$@\"\n", execVar, exe))
	if err := os.Chmod(kaged, 0o755); err != nil {
		t.Fatal(err)
	}
	modules := goEnv(t, "GOMODCACHE")
	n.env = append(append([]string{}, w.Env...),
		"PATH="+filepath.Dir(kaged)+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"GOPROXY=file://"+filepath.ToSlash(modules)+"/cache/download,"+goEnv(t, "GOPROXY"), "GOSUMDB=off", "GOFLAGS=",
		"npm_config_offline=true", "npm_config_audit=false", "npm_config_fund=false", "npm_config_loglevel=error")
	n.env = append(n.env, extra...)
	return n
}

// goEnv returns a variable of the go command.
func goEnv(t testing.TB, name string) string {
	t.Helper()
	value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(value))
}

// Types runs lines in a bash that stops at the first error, kills the processes that they leave, and returns the
// output.
func (n *Newcomer) Types(t testing.TB, lines string) string {
	t.Helper()
	cmd := n.command(t, lines)
	file, err := os.Create(filepath.Join(n.Dir, ".printed")) // a pipe would be read until those processes end
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	err = cmd.Run()
	_ = cmd.Cancel()
	out := Read(t, n.Dir, ".printed")
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, lines, out)
	}
	return out
}

// TypesUntil runs lines that do not end by themselves until they have printed a text.
func (n *Newcomer) TypesUntil(t testing.TB, lines, text string) {
	t.Helper()
	cmd := n.command(t, lines)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr Log
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Cancel()
		_ = cmd.Wait()
	}()
	var printed strings.Builder
	for r := bufio.NewReader(out); !strings.Contains(printed.String(), text); {
		b, err := r.ReadByte()
		if err != nil {
			t.Fatalf("it ended without %q: %s\n%s%s", text, lines, printed.String(), stderr.String())
		}
		printed.WriteByte(b)
	}
}

func (n *Newcomer) command(t testing.TB, lines string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", lines)
	cmd.Dir, cmd.Env = n.Dir, n.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
