// Package shimhost starts and keeps the shim and speaks for it: on Linux commands are started by it.
//
// There is one shim at a time, this executable once more (package shim), started by [Host.Run] and again whenever it
// ends. Leftovers of a killed shim are found by cgroup and by mark, and killed before its commands are reported as lost
// and a new shim starts. Run begins with the leftovers of an earlier supervisor of the same node that was killed
// together with its shim.
//
// Goroutines: Run's own, which reads the shim's frames; one that logs the shim's standard error; one per cgroup that
// cannot be removed at once. All have ended when Run returns.
package shimhost
