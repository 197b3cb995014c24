// Package proc finds processes and the commands that they belong to.
//
// Descendants of a command without a cgroup are recognised by a mark: the soft limit RLIMIT_LOCKS. The kernel keeps it
// per process, inherits it at every fork and exec, shows it to all users, and has not enforced it since Linux 2.4.
// Unlike a session, a process group or an environment variable, a daemon does not lose it by accident: double forks,
// setsid and env -i keep it. A process that resets it on purpose is still a descendant of the shim, which is its
// subreaper.
package proc
