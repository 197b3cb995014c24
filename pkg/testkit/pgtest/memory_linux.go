package pgtest

import "golang.org/x/sys/unix"

// memoryFolder is a file system in memory.
const memoryFolder = "/dev/shm"

// roomy reports whether a file system has room for the clusters of several test binaries.
func roomy(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && s.Bavail*uint64(s.Bsize) >= 8<<30
}
