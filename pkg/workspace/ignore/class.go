package ignore

import "strings"

// class matches c against the bracket expression that begins behind the "[" at pattern[p-1]. It returns the place
// of the closing "]", -1 if it is missing or the steps are used up, and whether c is in the class.
func (w *wild) class(pattern string, p int, c byte) (int, bool) {
	negated := at(pattern, p) == '!' || at(pattern, p) == '^'
	if negated {
		p++
	}
	matched := false
	var previous byte
	for first := true; ; first = false {
		ch := at(pattern, p)
		w.left--
		switch {
		case ch == 0, w.left < 0:
			return -1, false
		case ch == ']' && !first:
			return p, matched != negated
		case ch == '\\':
			p++
			if ch = at(pattern, p); ch == 0 {
				return -1, false
			}
			matched = matched || ch == c
		case ch == '-' && previous != 0 && at(pattern, p+1) != 0 && at(pattern, p+1) != ']':
			p++
			if ch = at(pattern, p); ch == '\\' {
				p++
				if ch = at(pattern, p); ch == 0 {
					return -1, false
				}
			}
			matched = matched || w.within(previous, ch, c)
			ch = 0 // a range ends here: in a-b-c the second dash is itself
		case ch == '[' && at(pattern, p+1) == ':':
			end, in, ok := w.named(pattern, p+2, c)
			if end < 0 {
				return -1, false
			}
			if !ok {
				// No name after all: the bracket stands for itself.
				matched = matched || c == '['
				break
			}
			matched = matched || in
			p, ch = end, 0
		default:
			matched = matched || ch == c
		}
		previous = ch
		p++
	}
}

// within reports whether c lies in the range; where case does not count, its capital may too.
func (w *wild) within(low, high, c byte) bool {
	if low <= c && c <= high {
		return true
	}
	if w.fold && 'a' <= c && c <= 'z' {
		upper := c - 'a' + 'A'
		return low <= upper && upper <= high
	}
	return false
}

// named matches c against a class such as [:alpha:] whose name begins at pattern[start]. It returns
// the place of its last "]", -1 if the expression is broken; ok is false if it is not a named class
// at all.
func (w *wild) named(pattern string, start int, c byte) (end int, in, ok bool) {
	close := strings.IndexByte(pattern[start:], ']')
	if close < 0 {
		return -1, false, false
	}
	end = start + close
	w.left -= close
	if end == start || pattern[end-1] != ':' {
		return start, false, false
	}
	test, known := classes[pattern[start:end-1]]
	if !known {
		return -1, false, false
	}
	in = test(c)
	if w.fold && pattern[start:end-1] == "upper" && isLower(c) {
		in = true
	}
	return end, in, true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return isLower(c) || isUpper(c) }
func isAlnum(c byte) bool { return isAlpha(c) || isDigit(c) }
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isPrint(c byte) bool { return ' ' <= c && c <= '~' }

var classes = map[string]func(byte) bool{
	"alnum":  isAlnum,
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  func(c byte) bool { return isPrint(c) && c != ' ' },
	"lower":  isLower,
	"print":  isPrint,
	"punct":  func(c byte) bool { return isPrint(c) && !isAlnum(c) && c != ' ' },
	"space":  isSpace,
	"upper":  isUpper,
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' },
}
