// Package optional makes the pointers of optional fields: where a Go value has its zero value, a message or a row has
// none.
package optional

// NonZero returns a pointer to v, nil for the zero value.
func NonZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
