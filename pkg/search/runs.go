package search

import (
	"regexp/syntax"
	"unicode/utf8"
)

// run is a number of adjacent bytes of one class that every match contains, such as the five digits of \d{5,}.
type run struct {
	class [256]bool
	size  int // number of bytes in the class
	n     int // number of adjacent bytes, 0 for an unusable run
}

// longRun returns the most selective run that an expression requires.
func longRun(re *syntax.Regexp) run {
	switch re.Op {
	case syntax.OpCharClass:
		return classRun(re, 1)
	case syntax.OpCapture:
		return longRun(re.Sub[0])
	case syntax.OpPlus:
		return longRun(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 && re.Sub[0].Op == syntax.OpCharClass {
			return classRun(re.Sub[0], re.Min)
		}
	case syntax.OpConcat:
		var found run
		for _, part := range re.Sub {
			if r := longRun(part); r.rare() > found.rare() {
				found = r
			}
		}
		return found
	}
	return run{}
}

// classRun describes n characters of a class. A non-ASCII character counts as every byte of its possible encodings.
func classRun(re *syntax.Regexp, n int) run {
	r := run{n: n}
	for i := 0; i+1 < len(re.Rune); i += 2 {
		for c := re.Rune[i]; c <= re.Rune[i+1] && c < utf8.RuneSelf; c++ {
			r.class[c] = true
		}
		if re.Rune[i+1] >= utf8.RuneSelf {
			for c := utf8.RuneSelf; c < len(r.class); c++ {
				r.class[c] = true
			}
		}
	}
	for _, in := range r.class {
		if in {
			r.size++
		}
	}
	return r
}

// rare estimates how much a search for the run narrows the search, 0 if it does not.
func (r *run) rare() int {
	switch {
	case r.n >= 2 && r.size <= 12, r.n >= 3 && r.size <= 32, r.n >= 12 && r.size <= 64:
		return 64*r.n - r.size
	}
	return 0
}

// next returns the end of the first run in data from at on, or -1. It checks only each n-th byte until one is in the
// class.
func (r *run) next(data []byte, at int) int {
	for i := at + r.n - 1; i < len(data); {
		if !r.class[data[i]] {
			i += r.n
			continue
		}
		// Back to the beginning of this run, at most n bytes.
		begin := i
		for begin > at && i-begin < r.n-1 && r.class[data[begin-1]] {
			begin--
		}
		end := i
		for end-begin+1 < r.n && end+1 < len(data) && r.class[data[end+1]] {
			end++
		}
		if end-begin+1 >= r.n {
			return end
		}
		i = end + r.n
	}
	return -1
}
