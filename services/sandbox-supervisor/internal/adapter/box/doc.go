// Package box makes cages: namespaces, a root built from the policy's grants and a read-only system, and the cage init
// (command cageinit), which owns the commands. The init is a small static program, embedded in this one and started
// from a sealed copy in memory.
//
// Grants are opened here without following links, cloned into mounts with their attributes and owner mapping, and
// handed to the init by descriptor. A path that was checked is therefore never resolved again. Without the right to
// mount, the init mounts in its own user namespace and compares inode and device with those found here.
//
// A [Box] has one goroutine, which reads the frames of its init. It ends with the init and every process in the cage.
package box
