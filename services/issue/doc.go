// Package issue stores the issues of projects, with their updates and todos, for agents and people.
//
// internal/core/issues has the rules: the state machine of issues as a table, the rights of agents and operators, the
// names and the order of todos. internal/store stores the issues in Postgres, schema issue, with a role that deletes no
// row. Each change is one transaction that locks the issue's row, so replicas of the service need no coordination.
//
// Goroutines: one checks that the database answers. It ends before Run returns.
package issue
