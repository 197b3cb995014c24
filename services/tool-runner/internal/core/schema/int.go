package schema

import (
	"fmt"
	"math"
	"strconv"
)

// Int is an integer parameter. It reads every form of a number that is an integer in JSON Schema (3, 3.0, 3e2). A
// number out of range becomes the nearest one in range.
type Int int64

// UnmarshalJSON reads a JSON number without a fraction.
func (i *Int) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*i = Int(n)
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f != math.Trunc(f) {
		return fmt.Errorf("%s is not an integer", text)
	}
	switch {
	case f >= math.MaxInt64:
		*i = math.MaxInt64
	case f <= math.MinInt64:
		*i = math.MinInt64
	default:
		*i = Int(f)
	}
	return nil
}
