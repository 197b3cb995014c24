// Package daemon runs all of kaged in one process: the data directory's lock, the embedded Postgres and NATS where no
// others are named, and the services on top.
//
// Only one daemon runs on a data directory; the lock is the kernel's and goes with the process. While it serves,
// <data>/run/daemon.json says its pid, URL and version. What it started ends before Run returns, and ends with the process
// if that is killed. Commands that use a daemon say so by another lock, commands.lock, so that one which a command has started
// for itself outlives whoever came to use it as well.
//
// An embedded Postgres that ends by itself is started again under the same address, and services find it as one that was away;
// one that ends at once again and again ends the daemon.
package daemon
