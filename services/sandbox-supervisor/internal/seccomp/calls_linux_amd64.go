package seccomp

import "golang.org/x/sys/unix"

// arch is the kernel's id of this architecture; a call of another one (int 0x80) kills the process.
const arch = unix.AUDIT_ARCH_X86_64

// foreign is the bit in the number of an x32 call; all x32 calls are refused.
const foreign = 0x40000000

// older are calls that only old architectures have.
var older = []int{
	unix.SYS_ACCESS, unix.SYS_ALARM, unix.SYS_ARCH_PRCTL, unix.SYS_CHOWN, unix.SYS_DUP2, unix.SYS_EPOLL_CREATE,
	unix.SYS_EPOLL_CTL_OLD, unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_WAIT_OLD, unix.SYS_EVENTFD, unix.SYS_FORK,
	unix.SYS_FUTIMESAT, unix.SYS_GET_THREAD_AREA, unix.SYS_GETDENTS, unix.SYS_GETPGRP, unix.SYS_INOTIFY_INIT,
	unix.SYS_LCHOWN, unix.SYS_LINK, unix.SYS_LSTAT, unix.SYS_PAUSE, unix.SYS_PIPE, unix.SYS_POLL, unix.SYS_READLINK,
	unix.SYS_RENAME, unix.SYS_RMDIR, unix.SYS_SELECT, unix.SYS_SET_THREAD_AREA, unix.SYS_SIGNALFD, unix.SYS_STAT,
	unix.SYS_SYMLINK, unix.SYS_TIME, unix.SYS_UNLINK, unix.SYS_URETPROBE, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_VFORK,
}

// olderRules are the rules of those that are only allowed with some arguments.
func olderRules() map[int][]alternative {
	return map[int][]alternative{
		unix.SYS_OPEN:  opening(1, 2),
		unix.SYS_CREAT: {{noSetID(1)}},
		unix.SYS_CHMOD: {{noSetID(1)}},
		unix.SYS_MKNOD: harmlessNode(1),
		unix.SYS_MKDIR: {{}},
	}
}
