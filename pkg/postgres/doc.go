// Package postgres opens kaged's store and defines its common rules: the roles for migration and for work, the errors
// that mean "the database is unavailable", and the repetition of transactions.
//
// # Two roles
//
// The owner creates a service's schema and runs its migrations. The service itself works as [AppRole], which may
// select, insert, update and delete in that schema's tables and use its sequences, and has no other right. Default
// privileges give it these rights on every table that a migration creates. A migration may revoke some (audit tables
// revoke update and delete), and [Open] never grants rights on an existing table. With two URLs the roles are two
// logins. With one, the pool connects as the owner and switches to AppRole. That prevents mistakes, but does not stop
// an attacker who can run any SQL.
//
// # Failures
//
// Errors of [Open], [InTx] and [Ping] are a *fault.Error or an error of the caller's own function; a database that
// cannot be reached, is starting or stopping, is full or has no connection left is fault.Unavailable with
// details.subsystem "storage". Errors of the pool itself go through [Classify]. A pool works again after an outage:
// dead idle connections are detected before use, and new ones are made when the server is back.
//
// # Goroutines
//
// A pool has the goroutines of pgxpool: one for its health check, and one for each connection being made. They end with
// Pool.Close, which waits for connections that are in use. The package starts none of its own.
package postgres
