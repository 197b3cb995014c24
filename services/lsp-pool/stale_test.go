package lsppool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	lsppoolv1 "kaged.dev/proto/gen/kaged/lsppool/v1"
)

// Two servers share the watch of a root. A file that changes while the second one starts, after that one has read it,
// reaches both, although a query of the first one takes the change from the watch.
func TestAChangeDuringAStartReachesBothServers(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	entry := func(lang, mode string) string {
		return fmt.Sprintf("[lsp.servers.%s]\ncommand = [%q]\nextensions = [\".%s\"]\nenv = {KAGED_FAKE_LSP = %q}\n",
			lang, exe, lang, mode)
	}
	p := serve(t, entry("fake", "pull")+entry("second", "pull,caches"))
	gate := filepath.Join(p.root, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	p.write("defs.fake", "def one\n")
	first, second := p.write("a.fake", "one\n"), p.write("a.second", "one\n")
	line := func(path string) (uint32, error) {
		res, err := p.ask(lsppoolv1.Action_ACTION_DEFINITION, path, nil)
		if err != nil || len(res.GetLocations()) != 1 {
			return 0, fmt.Errorf("definitions %v: %w", res.GetLocations(), err)
		}
		return res.GetLocations()[0].GetStart().GetLine(), nil
	}
	if at, err := line(first); err != nil || at != 0 {
		t.Fatalf("before the change the first server has it in line %d, %v", at, err)
	}
	type answer struct {
		at  uint32
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		at, err := line(second)
		answers <- answer{at, err}
	}()
	opened, err := os.OpenFile(gate, os.O_WRONLY, 0) // returns once the second server has read the files
	if err != nil {
		t.Fatal(err)
	}
	p.write("defs.fake", "\n\ndef one\n")
	if at, err := line(first); err != nil || at != 2 {
		t.Errorf("after the change the first server has it in line %d, %v", at, err)
	}
	opened.Close()
	if got := <-answers; got.err != nil || got.at != 2 {
		t.Errorf("the second server, which read the file before its change, has it in line %d, %v", got.at, got.err)
	}
}
