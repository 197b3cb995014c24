// Package disk measures the growth of folders without a quota since a given time.
//
// A [Meter] reads its folders once at the beginning. Each later measurement has two steps. It compares the used space
// of the file systems, which costs almost no time, and reads the folders again only if that space grew, or after a long
// time. A file counts its allocated blocks, so that holes are free, and at least [PerFile] for its inode, so that many
// small files are not. A file with several names counts once. A removed file counts while a watched process has it open
// or mapped.
//
// Reading takes no lock, opens no file and follows no link. A file that moves during a reading may be counted twice or
// not at all; the next reading corrects it. A removed file in transit between two sockets (SCM_RIGHTS) is held by no
// process and does not count. Without the rights of root, a file that is removed, closed and mapped counts with the
// bytes that were seen dirty.
package disk
