// Package shimhost starts the shim, keeps it running, and sends it requests: on Linux the shim starts the commands.
//
// There is one shim at a time, a process of this executable (package shim), started by [Host.Run] and again whenever it
// ends. The remaining processes of a killed shim are found by cgroup and by mark, and killed before its commands are
// reported as lost and a new shim starts. Run first kills the remaining processes of an earlier supervisor of the same
// node that was killed together with its shim.
//
// Goroutines: Run's own, which reads the shim's frames; one that logs the shim's standard error; one per cgroup that
// cannot be removed at once. All have ended when Run returns.
package shimhost
