package testkit

import (
	"os"
	"syscall"
	"testing"
)

// WriteProgram writes a file that can be executed at once. While it is open for writing no other test forks: the child
// would hold it open too until it executes its own program, and the system refuses to execute a file that is open for
// writing (ETXTBSY).
func WriteProgram(t testing.TB, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, content, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
