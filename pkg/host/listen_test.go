package host

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
)

// A socket is replaced once its last listener has gone, such as that of a killed process's child between fork and exec.
// A socket that keeps answering is refused.
func TestListenAfterAKilledProcess(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"a process that is leaving": true, "a process that serves": false} {
		dir := t.TempDir()
		path := filepath.Join(dir, "s.sock")
		old, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		old.(*net.UnixListener).SetUnlinkOnClose(false)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			for {
				conn, err := old.Accept()
				if err != nil {
					return
				}
				conn.Close()
				if leaves {
					old.Close()
				}
			}
		}()
		l, err := listenUnix(t.Context(), path, dir)
		if (err == nil) != leaves || !leaves && !errors.Is(err, errAnswers) {
			t.Errorf("%s: %v", name, err)
		}
		if l != nil {
			l.Close()
		}
		old.Close()
		<-answered
	}
}
