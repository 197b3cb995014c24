package change

// ApplyWith is Apply that calls before ahead of each step that can be seen.
func (w *Writer) ApplyWith(changes []Change, before func(step int)) error {
	return w.apply(changes, before)
}
