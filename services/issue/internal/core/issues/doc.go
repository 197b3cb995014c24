// Package issues has the rules of issues and their todos: the state machine as a table, the rights of agents and
// operators, the bounds of texts, how agents name todos, and the form of the checklist. It is pure but for [Service],
// which applies the rules to a [Store].
package issues
