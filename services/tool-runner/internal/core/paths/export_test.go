package paths

// ApplyWith is Apply that calls before ahead of each step that can be seen.
func ApplyWith(changes []Change, before func(step int)) error { return apply(changes, before) }
