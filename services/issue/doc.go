// Package issue keeps the issues of projects, their updates and their todos, which agents and people share.
//
// internal/core/issues has the rules: the state machine of issues as a table, the rights of agents and operators, how
// todos are named and ordered. internal/store keeps them in Postgres, schema issue, as a role that deletes no row.
// Each change is one transaction that holds the issue's row, so replicas of the service need no agreement among
// themselves.
//
// Goroutines: one watches that the database answers. It ends before Run returns.
package issue
