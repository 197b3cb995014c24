package rights_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/handover/rights"
)

// A packet may have no control message, one, or one of another kind; the descriptors before a broken one are returned
// with the error, because they are open.
func TestParse(t *testing.T) {
	t.Parallel()
	if fds, err := rights.Parse(nil); err != nil || len(fds) != 0 {
		t.Errorf("no message: %v, %v", fds, err)
	}
	two := append(unix.UnixRights(3, 4), unix.UnixRights(5)...)
	if fds, err := rights.Parse(two); err != nil || len(fds) != 3 || fds[2] != 5 {
		t.Errorf("two messages: %v, %v", fds, err)
	}
	other := unix.UnixCredentials(&unix.Ucred{Pid: 1})
	if fds, err := rights.Parse(append(unix.UnixRights(3), other...)); err == nil || len(fds) != 1 {
		t.Errorf("credentials after a descriptor: %v, %v", fds, err)
	}
	if _, err := rights.Parse(two[:unix.SizeofCmsghdr+1]); err == nil {
		t.Error("half a message was taken")
	}
}
