package githead

// Kept returns the counted and the true size of the kept objects, in bytes.
func (r *Repository) Kept() (counted, size int) {
	for _, object := range r.objects.cached {
		size += len(object.data) + 4*cap(object.order)
	}
	return r.objects.bytes, size
}
