package contract

// OpenTodos are the open todos of the issue that a run works on, as its root agent is reminded of them.
type OpenTodos struct {
	// Shown are the first of them in their order, or others behind which the one at work is.
	Shown []OpenTodo
	// Open is how many there are.
	Open int
}

// OpenTodo is a todo that is neither done nor dropped.
type OpenTodo struct {
	Content string
	// Working says that it is at work, Criterion that it is an acceptance criterion.
	Working, Criterion bool
}
