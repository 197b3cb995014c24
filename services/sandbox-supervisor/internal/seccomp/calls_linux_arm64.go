package seccomp

import "golang.org/x/sys/unix"

// arch is the kernel's id of this architecture: a call of another one kills.
const arch = unix.AUDIT_ARCH_AARCH64

// foreign is a bit that no number of a call has here.
const foreign = 0x80000000

// older are those that only old architectures have.
var older []int

// olderRules are those among them that depend on their arguments.
func olderRules() map[int][]alternative { return nil }
