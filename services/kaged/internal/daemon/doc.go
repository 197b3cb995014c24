// Package daemon runs all of kaged in one process: the data directory's lock, the embedded Postgres and NATS unless
// others are named, and the services on top.
//
// Only one daemon runs on a data directory; the lock is the kernel's and goes with the process. While it serves,
// <data>/run/daemon.json has its pid, URL and version. Its parts end before Run returns, and end with the process if
// that is killed. Commands that use a daemon hold another lock, commands.lock, so that a daemon which a command has
// started for itself outlives the other commands that use it.
//
// An embedded Postgres that ends by itself is started again under the same address, which is an outage for the
// services; one that ends at once again and again ends the daemon.
package daemon
