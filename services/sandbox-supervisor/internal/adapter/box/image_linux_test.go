package box_test

import (
	"testing"

	"kaged.dev/services/sandbox-supervisor/internal/adapter/box"
)

// The program of inits is held by a descriptor that no child is given another file as: in a process that had few files open it was
// descriptor 3, where the launcher finds its socket, and what was executed was that.
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
