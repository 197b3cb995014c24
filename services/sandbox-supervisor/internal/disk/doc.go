// Package disk measures the growth of folders without a quota since a given time.
//
// A [Meter] is told the folders and reads them once. From then on a measurement is two steps. The file systems say how
// much more of them is used, which costs almost no time; the folders are read again only if that gives reason to, or
// after a long time. Files count the blocks they have, so that holes are free and many small files are not, and at
// least [PerFile], for their inode. A file of many names counts once. A removed file counts while a watched process has
// it open or mapped.
//
// Reading takes no lock, opens no file and follows no link. A file that moves during a reading may be counted twice or
// not at all; the next reading corrects it. A removed file in flight between two sockets (SCM_RIGHTS) is held by no
// process and does not count. Without the rights of root, a file that is removed, closed and mapped counts as far as it
// was seen dirty.
package disk
