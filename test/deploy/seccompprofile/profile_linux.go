// Package seccompprofile derives deploy/seccomp.json, the system call filter of the workspace's container, from
// Docker's default.
package seccompprofile

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

//go:generate go run ./gen ../../../deploy/seccomp.json

// Calls are the system calls that building a cage takes and that Docker's default profile refuses without
// CAP_SYS_ADMIN. In the container they reach no further than a user namespace of the caller's own, because the
// container has no capability.
var Calls = []string{
	"clone", "clone3", "mount", "mount_setattr", "move_mount", "open_tree", "pivot_root", "sethostname", "umount2",
	"unshare",
}

// Profile returns Docker's default profile with [Calls] allowed. The default's rule that hides clone3 is left out,
// because a filter takes the strictest of the rules that match.
func Profile() *seccomp.Seccomp {
	p := seccomp.DefaultProfile()
	p.Syscalls = slices.DeleteFunc(p.Syscalls, func(s *seccomp.Syscall) bool {
		return slices.Equal(s.Names, []string{"clone3"}) && s.Action == specs.ActErrno
	})
	p.Syscalls = append(p.Syscalls, &seccomp.Syscall{
		LinuxSyscall: specs.LinuxSyscall{Names: Calls, Action: specs.ActAllow},
		Comment:      "kaged: building a cage in a user namespace",
	})
	return p
}

// JSON returns the profile as the file holds it.
func JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	err := enc.Encode(Profile())
	return b.Bytes(), err
}
