// Package postgres opens kaged's one store and holds its rules in one place: the roles of migration
// and work, the failures that mean "the database is away", and the repetition of transactions.
//
// # Two roles
//
// The owner makes a service's schema and runs its migrations. The service itself works as
// [AppRole], which may select, insert, update and delete in that schema's tables and use its
// sequences, and has no other right. Default privileges give it these rights on every table a
// migration makes; a migration may take some away again (audit tables revoke update and delete),
// and [Open] never grants rights on an existing table. With two URLs the roles are two logins. With
// one, the pool connects as the owner and takes on AppRole when it connects, which keeps mistakes
// out but not an attacker who can run any SQL.
//
// # Failures
//
// Errors of [Open], [InTx] and [Ping] are a *fault.Error or an error of the caller's own function;
// a database that cannot be reached, is starting or stopping, is full or has no connection left is
// fault.Unavailable with details.subsystem "storage". Errors of the pool itself go through
// [Classify]. A pool outlives an outage: connections that died while they were idle are found
// before they are handed out, and new ones are made when the server is back.
//
// # Goroutines
//
// A pool has the goroutines of pgxpool: one for its health check, and one for each connection being made. They end with
// Pool.Close, which waits for connections that are in use. The package starts none of its own.
package postgres
