// Package embedded runs a private PostgreSQL server from the installed binaries, for machines without a running server.
//
// # Promises
//
// [Start] creates the database cluster on the first start and reuses it afterwards. The server listens on a unix socket
// in a folder of mode 0700 and on no network; the logins kaged_owner and kaged_app authenticate by scram-sha-256 with
// random passwords in a file of mode 0600. Committed data is on disk (fsync is on). The server ends with the process
// that started it, however that process ends: on Linux the kernel sends it SIGINT when its parent dies; on other
// systems the next Start stops the remaining server. A cluster is never overwritten, and data of another major version
// of PostgreSQL is refused and not changed.
//
// Under the data directory it owns postgres/ (data/ is the cluster, credentials.json the passwords, run/ the socket)
// and log/postgres.log, which is rotated once. If the socket's path is too long for the system, the socket is in a
// separate folder below the folder for temporary files.
//
// # Which user it runs as
//
// PostgreSQL refuses to run as root, and initdb refuses users without an entry in the passwd file. An ordinary user's
// server runs as that user. Root's runs as postgres or nobody, and gets its folders as open descriptors, so that it
// needs no access to their parents (a data directory under a home of mode 0700 works). If that user cannot run it, and
// for users without an entry, it runs in a user namespace in which its id appears as an unprivileged one. The owner of
// an existing cluster decides.
//
// # Goroutines
//
// A running server has two goroutines: one on an operating system thread of its own, because the kernel ties a child to
// the thread that started it, which waits for the server to end; and one that copies its log. Both end with the server,
// that is before Done is closed.
package embedded
