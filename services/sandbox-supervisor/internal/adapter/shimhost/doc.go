// Package shimhost starts the shim, keeps it, and speaks for it: it is how commands are started on Linux.
//
// There is one shim at a time, this executable once more (package shim), started by [Host.Run] and anew when it ends. What
// a shim that was killed leaves behind is found by cgroup and by mark and killed before its commands are reported as lost
// and a new shim starts; so is, at the start, what an earlier supervisor of the same node left when it was killed together
// with its shim.
//
// Goroutines: Run's own, which reads the shim's frames; one that passes on what the shim writes before it dies; one per cgroup
// that cannot be removed at once. All have ended when Run returns.
package shimhost
