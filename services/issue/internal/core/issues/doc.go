// Package issues has the rules of issues and their todos: the state machine as a table, the rights of agents and
// operators, the limits of texts, the names of todos for agents, and the form of the checklist. Its functions are pure
// except for [Service], which applies the rules to a [Store].
package issues
