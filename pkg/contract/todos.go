package contract

// OpenTodos are the open todos of the issue of a run, as its root agent is reminded of them.
type OpenTodos struct {
	// Shown are the first todos in order, or others that include the one in progress.
	Shown []OpenTodo
	// Open is the number of open todos.
	Open int
}

// OpenTodo is a todo that is neither done nor dropped.
type OpenTodo struct {
	Content string
	// Working is true for the todo in progress, Criterion for an acceptance criterion.
	Working, Criterion bool
}
