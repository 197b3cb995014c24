// Package daemon runs all of kaged in one process: the lock of the data directory, the embedded Postgres and NATS
// unless external ones are configured, and the services.
//
// Only one daemon runs on a data directory. The lock is the kernel's and is released with the end of the process. While
// the daemon serves, <data>/run/daemon.json has its pid, URL and version. Its parts end before Run returns, and end
// with the process if it is killed. Commands that use a daemon hold another lock, commands.lock, so that a daemon that
// a command has started for itself outlives the other commands that use it.
//
// If an embedded Postgres ends by itself, it is started again at the same address, which is an outage for the services.
// If it repeatedly ends at once, the daemon ends.
package daemon
