package embedded

import (
	"strings"
	"testing"
)

// The commands recommended for Debian create no unwanted database server, and need no sudo as root.
func TestDebianHint(t *testing.T) {
	t.Parallel()
	for _, root := range []bool{true, false} {
		for _, decided := range []bool{true, false} {
			hint := debianHint("postgresql", root, decided)
			if got := strings.Contains(hint, "create_main_cluster = false"); got == decided {
				t.Errorf("decided %v: %q", decided, hint)
			}
			if got := strings.Contains(hint, "sudo "); got == root {
				t.Errorf("root %v: %q", root, hint)
			}
			if !strings.HasSuffix(hint, "apt-get install -y --no-install-recommends postgresql") {
				t.Errorf("it installs nothing: %q", hint)
			}
		}
	}
}
