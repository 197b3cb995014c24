// Package host runs one service or many in a process.
//
// A [Module] names a service and its needs, and builds it. A process lists its modules in plain Go; the [Host] sorts
// them by their needs, gives each its own gRPC server (with health and reflection) on unix sockets and, with TLS, TCP
// addresses, starts them in that order and stops them in the reverse. A service reaches another with [Env.Dial]: inside
// the process if the other runs in it, else at its configured address. The caller uses gRPC in both cases.
//
// A service stops in this order, so that accepted requests complete:
//
// 1. its health turns NOT_SERVING; 2. Drain, if it has one, finishes long work, while all its needs still run; 3. its
// server stops gracefully, by force after a grace; 4. Run's context ends and Run returns.
//
// A second SIGINT or SIGTERM, through [Interrupts] and Options.Hurry, cuts steps 2 and 3 short.
//
// Goroutines: one that watches the certificates; per module one for its server and each listener, one for Run; while it
// stops, one that waits for Hurry. All end before [Host.Run] returns. [Interrupts] has one until its stop is called.
package host
