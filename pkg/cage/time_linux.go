package cage

import "golang.org/x/sys/unix"

// changeTime is the last change of an inode, in nanoseconds.
func changeTime(st *unix.Stat_t) int64 { return st.Ctim.Nano() }
