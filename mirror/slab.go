package mirror

// slab makes small slices. Slices that are kept all together are cut from larger ones, since allocating many
// small ones costs more than filling them.
type slab[T any] struct {
	max  int // elements of a larger one; 0: each slice is on its own
	used int
	rest []T
}

// take returns a slice of n zero elements, which is never nil.
func (s *slab[T]) take(n int) []T {
	if n > len(s.rest) || s.rest == nil {
		// As much again as was used, so that little room is left over where little is used.
		s.rest = make([]T, max(n, min(s.used, s.max)))
	}
	taken := s.rest[:n:n]
	s.rest = s.rest[n:]
	s.used += n
	return taken
}
