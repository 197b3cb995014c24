// Package disk measures how much more folders hold than at some time before, for those that have no quota.
//
// A [Meter] is told the folders and reads them once. From then on a measurement is two steps: the file systems say how much
// more of them is used, which costs nothing; only when that, or a long time, gives reason to, the folders are read again. Files
// count the blocks they have, so that holes are free and many small files are not, and at least [PerFile], for their inode; a
// file of many names counts once; and one that was removed and is still open or mapped in a process that is watched counts.
//
// Reading takes no lock and opens no file, and follows no link. What is moved about while it reads may be counted twice or not
// at all; the next reading tells. A file that was removed and is only in flight between two sockets (SCM_RIGHTS) is held by no
// process and does not count; and without the rights of root, one that is removed, closed and mapped counts as far as it was
// seen dirty.
package disk
