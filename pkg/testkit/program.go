package testkit

import (
	"os"
	"syscall"
	"testing"
)

// WriteProgram writes an executable file that can be run at once. No other test forks while the file is open for
// writing: a child would inherit the open file, and the system refuses to execute a file that is open for writing
// (ETXTBSY).
func WriteProgram(t testing.TB, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, content, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
