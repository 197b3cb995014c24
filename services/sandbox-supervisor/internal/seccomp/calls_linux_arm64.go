package seccomp

import "golang.org/x/sys/unix"

// arch is the kernel's id of this architecture; a call of another one kills the process.
const arch = unix.AUDIT_ARCH_AARCH64

// foreign is a bit that no call's number has here.
const foreign = 0x80000000

// older are calls that only old architectures have.
var older []int

// olderRules are the rules of those that are only allowed with some arguments.
func olderRules() map[int][]alternative { return nil }
