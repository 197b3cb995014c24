package wirejson

import (
	"math"
	"strconv"
	"unicode/utf8"

	"kaged.dev/pkg/fault"
)

const hex = "0123456789abcdef"

// plain are the bytes that need no escape in a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// AppendString appends s as a JSON string to dst and returns the extended slice. Each byte that is not UTF-8 becomes
// U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0 // start of the run that is copied unchanged
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			dst = append(append(dst, s[start:i]...), "\uFFFD"...)
		} else {
			dst = appendEscape(append(dst, s[start:i]...), c)
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
}

// appendFloat appends f in the shortest form that parses to the same number, in ECMAScript's notation.
func appendFloat(dst []byte, f float64, bits int, name string) ([]byte, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return dst, fault.New(fault.Internal, "The field %s holds a number that JSON cannot write.", name)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, bits), nil
}
