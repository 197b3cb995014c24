package box_test

import (
	"testing"

	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
)

// The descriptor of the init program is above those that a child inherits. As descriptor 3, in a process with few open
// files, it was overwritten by the launcher's socket and that was executed.
func TestImageIsNoDescriptorOfAChild(t *testing.T) {
	t.Parallel()
	fd, err := box.ImageFD()
	if err != nil {
		t.Fatal(err)
	}
	if fd < 32 {
		t.Errorf("the image is descriptor %d, want at least 32", fd)
	}
}
