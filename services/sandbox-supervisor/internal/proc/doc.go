// Package proc finds processes and tells their owners.
//
// Descendants of a command without a cgroup are known by a mark: the soft limit RLIMIT_LOCKS, which the kernel keeps
// per process, hands on at every fork and exec, shows to all users, and has not enforced since Linux 2.4. Unlike a
// session, a process group or a variable of the environment, a daemon sheds none of it by accident: double forks,
// setsid and env -i leave it as it is. A process that resets it on purpose is still a descendant of the shim, which is
// their subreaper.
package proc
