package cage

import "golang.org/x/sys/unix"

// changeTime is when an inode was changed last, in nanoseconds.
func changeTime(st *unix.Stat_t) int64 { return st.Ctim.Nano() }
